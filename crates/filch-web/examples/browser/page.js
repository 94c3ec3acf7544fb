// Draws on the page.

// Returns the function that Rust calls to draw a rectangle of pixels.
export function show(app, canvas) {
  return (x, y, width, height, pixels) => {
    const bytes = new Uint8ClampedArray(app.bytes(pixels, width * height * 4).buffer);
    canvas.putImageData(new ImageData(bytes, width, height), x, y);
  };
}

// Calls `draw` for each frame of the page, and measures the time between two frames.
export function watchFrames(draw) {
  const times = [];
  let next;
  const frame = (time) => {
    times.push(time);
    draw(time);
    next = requestAnimationFrame(frame);
  };
  next = requestAnimationFrame(frame);
  return {
    stop() {
      cancelAnimationFrame(next);
      const gaps = times.slice(1).map((time, at) => time - times[at]);
      const all = times.at(-1) - times[0];
      return {
        frames: times.length,
        perSecond: (gaps.length * 1000) / all,
        longest: Math.max(0, ...gaps),
      };
    },
  };
}
