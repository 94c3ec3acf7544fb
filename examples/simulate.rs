fn main() {
    let runs: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let start = std::time::Instant::now();
    let (mut moves, mut fails) = (0, 0);
    for seed in 0..runs {
        match filch::simulate::Simulation::from_seed(seed).run() {
            Ok(o) => moves += o.moves(),
            Err(f) => {
                fails += 1;
                if fails < 3 {
                    println!("{f}");
                    let mut s = f.shrink(4000);
                    println!("{s}");
                    println!("{}", s.case.to_json());
                    let _ = &mut s;
                }
            }
        }
    }
    println!(
        "{runs} runs {moves} moves {fails} failed {:?}",
        start.elapsed()
    );
}
