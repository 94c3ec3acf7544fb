// The cases of the suite `graph` for systems in C++: Taskflow and oneTBB, if their headers exist at
// compile time. run.sh builds and runs it.

#include "harness.hpp"
#include "shapes.hpp"

#if __has_include(<taskflow/taskflow.hpp>)
#define HAS_TASKFLOW
#include "taskflow.hpp"
#endif
#if __has_include(<oneapi/tbb/flow_graph.h>)
#define HAS_ONETBB
#include "onetbb.hpp"
#endif

#include <memory>

namespace {

// A pool, started on first use, and the workload that runs on it.
template <class S>
struct State {
    std::optional<typename S::Pool> pool;
    std::optional<typename S::Graph> graph;

    typename S::Pool& started(int workers) {
        if (!pool) pool.emplace(workers);
        return *pool;
    }
};

auto mark(size_t number) {
    return [place = places() + number] { place->mark(); };
}

// Adds a sampler of S to a case, unless the command line excludes S.
template <class S, class F>
void add(Case& to, const Config& config, F sample) {
    if (!Config::has(config.systems, S::name)) return;
    auto state = std::make_shared<State<S>>();
    to.systems.push_back({S::name, [state, sample] { return sample(*state); }});
}

// The same for all systems that run graphs.
template <class F>
void add_all(Case& to, const Config& config, F sample) {
#ifdef HAS_TASKFLOW
    add<Taskflow>(to, config, [sample](auto& state) { return sample.template operator()<Taskflow>(state); });
#endif
#ifdef HAS_ONETBB
    add<OneTbb>(to, config, [sample](auto& state) { return sample.template operator()<OneTbb>(state); });
#endif
    add<Seq>(to, config, [sample](auto& state) { return sample.template operator()<Seq>(state); });
}

void finish(Case& made) {
    if (!made.systems.empty()) made.run();
}

bool wanted(const Config& config, const std::string& name) { return Config::has(config.cases, name); }

void round_trips(const Config& config) {
    for (const bool asleep : {false, true}) {
        const std::string name = asleep ? "round_trip_asleep" : "round_trip";
        const int calls = asleep ? 1 : config.pick(1'000, 10'000);
        const int rounds = asleep ? config.pick(100, 300) : config.pick(5, 15);
        for (const int workers : config.workers) {
            if (!wanted(config, name)) continue;
            Case made{name, workers, rounds, false, {}};
            add_all(made, config, [workers, calls]<class S>(State<S>& state) {
                auto& pool = state.started(workers);
                if (!state.graph) state.graph = S::build(pool, Shape::independent(1), mark);
                Stopwatch watch;
                watch.time([&] {
                    for (int call = 0; call < calls; ++call) S::run(pool, *state.graph);
                });
                check_places(1, uint32_t(calls));
                return Sample{watch.nanos, double(calls), {}};
            });
            finish(made);
        }
    }
}

struct Kind {
    const char* name;
    size_t tasks, quick_tasks;
    Shape (*make)(size_t);
};

constexpr Kind KINDS[] = {
    {"independent", 1'000'000, 100'000, Shape::independent},
    {"chain", 1'000'000, 100'000, Shape::chain},
    {"tree", 1 << 20, 1 << 17, Shape::tree},
    {"dag", 100'000, 20'000, Shape::dag},
    {"wavefront", 512 * 512, 128 * 128, Shape::wavefront},
    {"stages", 1000, 1000, Shape::stages},
};

void shape_cases(const Config& config, const Kind& kind) {
    const std::string name = kind.name;
    const Shape shape = kind.make(config.pick(kind.quick_tasks, kind.tasks));
    const size_t times = std::max<size_t>(1, config.pick<size_t>(50'000, 1'000'000) / shape.tasks);
    const double ops = double(shape.tasks * times);
    const int rounds = config.pick(3, 9);
    if (wanted(config, name + "_build")) {
        Case made{name + "_build", 1, rounds, false, {}};
        add_all(made, config, [&shape, times, ops]<class S>(State<S>& state) {
            auto& pool = state.started(1);
            Stopwatch watch;
            double bytes = 0;
            for (size_t time = 0; time < times; ++time) {
                std::optional<typename S::Graph> graph;
                const double before = heap();
                watch.time([&] { graph = S::build(pool, shape, mark); });
                bytes += heap() - before;
            }
            return Sample{watch.nanos, ops, bytes};
        });
        finish(made);
    }
    for (const int workers : config.workers) {
        if (!wanted(config, name + "_first")) continue;
        Case made{name + "_first", workers, rounds, false, {}};
        add_all(made, config, [&shape, workers, times, ops]<class S>(State<S>& state) {
            auto& pool = state.started(workers);
            Stopwatch watch;
            for (size_t time = 0; time < times; ++time) {
                auto graph = S::build(pool, shape, mark);
                watch.time([&] { S::run(pool, graph); });
            }
            check_places(shape.tasks, uint32_t(times));
            return Sample{watch.nanos, ops, {}};
        });
        finish(made);
    }
    for (const int workers : config.workers) {
        if (!wanted(config, name)) continue;
        Case made{name, workers, rounds, false, {}};
        add_all(made, config, [&shape, workers, times, ops]<class S>(State<S>& state) {
            auto& pool = state.started(workers);
            if (!state.graph) state.graph = S::build(pool, shape, mark);
            S::run(pool, *state.graph);
            Stopwatch watch;
            watch.time([&] {
                for (size_t time = 0; time < times; ++time) S::run(pool, *state.graph);
            });
            check_places(shape.tasks, uint32_t(times + 1));
            return Sample{watch.nanos, ops, {}};
        });
        finish(made);
    }
}

#ifdef HAS_TASKFLOW
// A case of Taskflow only: `run` is called with a pool and the graph that `make` returns.
template <class M, class R>
void taskflow_case(const Config& config, const std::string& name, size_t tasks, uint64_t times, M make, R run) {
    for (const int workers : config.workers) {
        if (!wanted(config, name)) continue;
        Case made{name, workers, config.pick(3, 9), false, {}};
        add<Taskflow>(made, config, [=](State<Taskflow>& state) {
            auto& pool = state.started(workers);
            if (!state.graph) state.graph = make();
            Stopwatch watch;
            watch.time([&] { run(pool, *state.graph); });
            check_places(tasks, uint32_t(times));
            return Sample{watch.nanos, double(tasks) * double(times), {}};
        });
        finish(made);
    }
}

void dynamic(const Config& config) {
    const auto laps = config.pick<uint64_t>(100'000, 1'000'000);
    const auto tasks = config.pick<size_t>(10'000, 100'000);
    taskflow_case(config, "condition", 1, laps, [=] { return Taskflow::condition(laps); }, Taskflow::run);
    taskflow_case(config, "condition_body", 1, laps, [=] { return Taskflow::condition_body(laps); }, Taskflow::run);
    const auto one = [] {
        auto graph = std::make_unique<tf::Taskflow>();
        graph->emplace(mark(0));
        return graph;
    };
    taskflow_case(config, "run_n", 1, laps, one, [laps](Taskflow::Pool& pool, Taskflow::Graph& graph) {
        pool.executor->run_n(*graph, laps).wait();
    });
    taskflow_case(config, "subflow", tasks, 1, [=] { return Taskflow::subflows(1, tasks); }, Taskflow::run);
    taskflow_case(config, "subflow_small", tasks, 1, [=] { return Taskflow::subflows(tasks / 10, 10); },
                  Taskflow::run);
    const auto n = config.pick<unsigned>(16, 20);
    taskflow_case(config, "subflow_fib", Taskflow::calls(n), 1, [=] { return Taskflow::fib(n); }, Taskflow::run);
    taskflow_case(config, "module_small", tasks, 1, [=] { return Taskflow::modules(tasks); }, Taskflow::run);
    taskflow_case(config, "runtime_spawn", tasks, 1, [=] { return Taskflow::spawns(tasks); }, Taskflow::run);
    taskflow_case(config, "submit_after", tasks, 1, one,
                  [tasks](Taskflow::Pool& pool, Taskflow::Graph&) { Taskflow::dependent(pool, tasks); });
    tf::Semaphore permit(1);
    taskflow_case(config, "semaphore", tasks, 1, [&] { return Taskflow::semaphore(permit, tasks); }, Taskflow::run);
}
#endif

void pipelines(const Config& config) {
    const auto tokens = config.pick<uint64_t>(10'000, 100'000);
    for (const int workers : config.workers) {
        if (!wanted(config, "pipeline")) continue;
        Case made{"pipeline", workers, config.pick(3, 9), false, {}};
        const auto sample = [workers, tokens]<class S>(State<S>& state) {
            auto& pool = state.started(workers);
            Stopwatch watch;
            watch.time([&] { S::pipeline(pool, tokens); });
            check_places(1, uint32_t(tokens));
            return Sample{watch.nanos, double(tokens), {}};
        };
#ifdef HAS_TASKFLOW
        add<Taskflow>(made, config, sample);
#endif
#ifdef HAS_ONETBB
        add<OneTbb>(made, config, sample);
#endif
        (void)sample;
        finish(made);
    }
}

// Work of a fixed number of steps, as in src/busy.rs.
void steps(uint64_t count) {
    volatile uint64_t source = 1;
    uint64_t state = source;
    for (uint64_t step = 0; step < count; ++step) state = (state ^ (state >> 29)) * 0x9e3779b97f4a7c15;
    source = state;
}

double steps_per_nano() {
    static const double speed = [] {
        double fastest = 1e18;
        for (int trial = 0; trial < 40; ++trial) {
            Stopwatch watch;
            watch.time([] { steps(50'000); });
            fastest = std::min(fastest, watch.nanos);
        }
        return 50'000 / fastest;
    }();
    return speed;
}

void table(const Config& config, const std::string& name, const Shape& shape, double micros) {
    if (!wanted(config, name)) return;
    const auto count = uint64_t(micros * 1000 * steps_per_nano() / config.pick(20, 1));
    const std::vector<int> all{1, 2, 4, 8};
    for (const int workers : config.workers_given ? config.workers : all) {
        Case made{name, workers, config.pick(3, 5), true, {}};
        add_all(made, config, [&shape, workers, count]<class S>(State<S>& state) {
            auto& pool = state.started(workers);
            const auto task = [count](size_t number) {
                return [count, place = places() + number] {
                    steps(count);
                    place->mark();
                };
            };
            if (!state.graph) state.graph = S::build(pool, shape, task);
            Stopwatch watch;
            watch.time([&] { S::run(pool, *state.graph); });
            check_places(shape.tasks, 1);
            return Sample{watch.nanos, 1, {}};
        });
        finish(made);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const Config config = parse(argc, argv);
    // Before any thread is pinned.
    cores();
#ifdef HAS_ONETBB
    OneTbb::look_around();
#endif
    std::printf("suite graph, in C++\n");
    round_trips(config);
    for (const Kind& kind : KINDS) shape_cases(config, kind);
#ifdef HAS_TASKFLOW
    dynamic(config);
#endif
    pipelines(config);
    table(config, "table_wide", Shape::independent(1000), 850);
    table(config, "table_deep", Shape::stages(1000), 520);
}
