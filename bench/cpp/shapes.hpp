// The shapes of src/graphs/shape.rs, the places that tasks mark, and the loop without a scheduler.
#pragma once

#include "harness.hpp"

#include <atomic>
#include <random>
#include <utility>

struct Shape {
    size_t tasks;
    std::vector<std::pair<uint32_t, uint32_t>> edges;

    template <class F>
    static Shape of(size_t tasks, F connect) {
        Shape shape{tasks, {}};
        for (uint32_t task = 0; task < tasks; ++task) connect(task, shape.edges);
        return shape;
    }

    static Shape independent(size_t tasks) {
        return of(tasks, [](uint32_t, auto&) {});
    }

    static Shape chain(size_t tasks) {
        return of(tasks, [](uint32_t task, auto& edges) {
            if (task > 0) edges.emplace_back(task - 1, task);
        });
    }

    static Shape tree(size_t tasks) {
        return of(tasks - 1, [](uint32_t task, auto& edges) {
            if (task > 0) edges.emplace_back((task - 1) / 2, task);
        });
    }

    static Shape dag(size_t tasks) {
        std::mt19937_64 random(5);
        return of(tasks, [&](uint32_t task, auto& edges) {
            const size_t first = edges.size();
            while (edges.size() - first < std::min<size_t>(4, task)) {
                const std::pair<uint32_t, uint32_t> edge(random() % task, task);
                if (std::find(edges.begin() + first, edges.end(), edge) == edges.end()) edges.push_back(edge);
            }
        });
    }

    static Shape wavefront(size_t tasks) {
        const auto side = uint32_t(std::sqrt(double(tasks)));
        return of(size_t(side) * side, [side](uint32_t task, auto& edges) {
            if (task / side + 1 < side) edges.emplace_back(task, task + side);
            if (task % side + 1 < side) edges.emplace_back(task, task + 1);
        });
    }

    static Shape stages(size_t tasks) {
        return of(tasks, [](uint32_t task, auto& edges) {
            const uint32_t stage = task / 10 * 10;
            for (uint32_t before = stage - std::min(stage, 10u); before < stage; ++before)
                edges.emplace_back(before, task);
        });
    }

    std::vector<uint32_t> waits() const {
        std::vector<uint32_t> waits(tasks);
        for (const auto& edge : edges) ++waits[edge.second];
        return waits;
    }
};

// A counter per task.
struct Place {
    std::atomic<uint32_t> runs{0};

    void mark() { runs.store(runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

inline Place* places() {
    static Place* const places = new Place[1 << 20];
    return places;
}

inline void check_places(size_t tasks, uint32_t times) {
    for (size_t task = 0; task < tasks; ++task) {
        const uint32_t runs = places()[task].runs.exchange(0);
        if (runs == times) continue;
        std::fprintf(stderr, "task %zu ran %u times instead of %u\n", task, runs, times);
        std::exit(1);
    }
}

// Plain counters and a stack, no atomics.
struct Seq {
    static constexpr const char* name = "seq";

    struct Pool {
        explicit Pool(int) {}
    };

    struct Graph {
        std::vector<std::function<void()>> tasks;
        std::vector<uint32_t> left, waits, begins, after, sources, ready;
    };

    template <class F>
    static Graph build(Pool&, const Shape& shape, F task) {
        Graph graph;
        graph.tasks.reserve(shape.tasks);
        for (size_t number = 0; number < shape.tasks; ++number) graph.tasks.emplace_back(task(number));
        graph.waits = graph.left = shape.waits();
        for (uint32_t number = 0; number < shape.tasks; ++number)
            if (graph.waits[number] == 0) graph.sources.push_back(number);
        graph.begins.resize(shape.tasks + 1);
        for (const auto& edge : shape.edges) ++graph.begins[edge.first + 1];
        for (size_t number = 0; number < shape.tasks; ++number) graph.begins[number + 1] += graph.begins[number];
        graph.after.resize(shape.edges.size());
        auto next = graph.begins;
        for (const auto& edge : shape.edges) graph.after[next[edge.first]++] = edge.second;
        return graph;
    }

    static void run(Pool&, Graph& graph) {
        for (const uint32_t source : graph.sources) {
            graph.ready.push_back(source);
            while (!graph.ready.empty()) {
                const uint32_t task = graph.ready.back();
                graph.ready.pop_back();
                graph.tasks[task]();
                graph.left[task] = graph.waits[task];
                for (uint32_t at = graph.begins[task]; at < graph.begins[task + 1]; ++at)
                    if (--graph.left[graph.after[at]] == 0) graph.ready.push_back(graph.after[at]);
            }
        }
    }
};
