// oneTBB's flow graph. The main thread is one of the workers.
#pragma once

#include "shapes.hpp"

#include <deque>
#include <memory>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

struct OneTbb {
    static constexpr const char* name = "onetbb";

    // Must be called before the main thread is pinned: the library reads the number of cores only
    // once.
    static void look_around() { tbb::info::default_concurrency(); }

    struct Places : tbb::task_scheduler_observer {
        explicit Places(tbb::task_arena& arena) : task_scheduler_observer(arena) { observe(true); }

        ~Places() override { observe(false); }

        void on_scheduler_entry(bool) override { place(tbb::this_task_arena::current_thread_index()); }
    };

    struct Pool {
        tbb::global_control control;
        tbb::task_arena arena;
        Places places;

        explicit Pool(int workers)
            : control(tbb::global_control::max_allowed_parallelism, size_t(workers)), arena(workers), places(arena) {}
    };

    using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

    struct Flow {
        tbb::flow::graph graph;
        std::deque<Node> nodes;
        std::vector<uint32_t> sources;
    };

    using Graph = std::unique_ptr<Flow>;

    template <class F>
    static Graph build(Pool& pool, const Shape& shape, F task) {
        Graph flow;
        pool.arena.execute([&] {
            flow = std::make_unique<Flow>();
            for (size_t number = 0; number < shape.tasks; ++number)
                flow->nodes.emplace_back(flow->graph, [work = task(number)](const tbb::flow::continue_msg& message) {
                    work();
                    return message;
                });
            for (const auto& edge : shape.edges) tbb::flow::make_edge(flow->nodes[edge.first], flow->nodes[edge.second]);
            const auto waits = shape.waits();
            for (uint32_t number = 0; number < shape.tasks; ++number)
                if (waits[number] == 0) flow->sources.push_back(number);
        });
        return flow;
    }

    static void run(Pool& pool, Graph& flow) {
        pool.arena.execute([&] {
            for (const uint32_t source : flow->sources) flow->nodes[source].try_put(tbb::flow::continue_msg());
            flow->graph.wait_for_all();
        });
    }

    static void pipeline(Pool& pool, uint64_t tokens) {
        uint64_t made = 0;
        pool.arena.execute([&] {
            tbb::parallel_pipeline(
                8,
                tbb::make_filter<void, uint64_t>(tbb::filter_mode::serial_in_order,
                                                 [&](tbb::flow_control& control) {
                                                     if (made == tokens) control.stop();
                                                     else ++made;
                                                     return made;
                                                 })
                    & tbb::make_filter<uint64_t, uint64_t>(tbb::filter_mode::parallel,
                                                           [](uint64_t token) { return token; })
                    & tbb::make_filter<uint64_t, void>(tbb::filter_mode::serial_in_order,
                                                       [](uint64_t) { places()->mark(); }));
        });
    }
};
