// Taskflow. The main thread sleeps while the workers run a graph.
#pragma once

#include "shapes.hpp"

#include <memory>
#include <taskflow/algorithm/pipeline.hpp>
#include <taskflow/taskflow.hpp>

struct Taskflow {
    static constexpr const char* name = "taskflow";

    struct Pool {
        std::unique_ptr<tf::Executor> executor;

        explicit Pool(int workers) {
            const auto before = threads();
            executor = std::make_unique<tf::Executor>(size_t(workers));
            int worker = 0;
            for (const pid_t thread : threads())
                if (before.count(thread) == 0) place(worker++, thread);
        }
    };

    using Graph = std::unique_ptr<tf::Taskflow>;

    template <class F>
    static Graph build(Pool&, const Shape& shape, F task) {
        auto graph = std::make_unique<tf::Taskflow>();
        if (shape.edges.empty()) {
            for (size_t number = 0; number < shape.tasks; ++number) graph->emplace(task(number));
            return graph;
        }
        std::vector<tf::Task> tasks;
        tasks.reserve(shape.tasks);
        for (size_t number = 0; number < shape.tasks; ++number) tasks.push_back(graph->emplace(task(number)));
        for (const auto& edge : shape.edges) tasks[edge.first].precede(tasks[edge.second]);
        return graph;
    }

    static void run(Pool& pool, Graph& graph) { pool.executor->run(*graph).wait(); }

    // Chooses 0 until it was called this number of times, then chooses 1 and starts over.
    static auto choose(uint64_t laps) {
        return [laps, left = laps]() mutable {
            if (--left > 0) return 0;
            left = laps;
            return 1;
        };
    }

    static Graph condition(uint64_t laps) {
        auto graph = std::make_unique<tf::Taskflow>();
        auto start = graph->emplace([] {});
        auto again = graph->emplace([choose = choose(laps)]() mutable {
            places()->mark();
            return choose();
        });
        auto end = graph->emplace([] {});
        start.precede(again);
        again.precede(again, end);
        return graph;
    }

    static Graph condition_body(uint64_t laps) {
        auto graph = std::make_unique<tf::Taskflow>();
        auto start = graph->emplace([] {});
        auto lap = graph->emplace([] { places()->mark(); });
        auto again = graph->emplace(choose(laps));
        auto end = graph->emplace([] {});
        start.precede(lap);
        lap.precede(again);
        again.precede(lap, end);
        return graph;
    }

    static Graph subflows(size_t outside, size_t inside) {
        auto graph = std::make_unique<tf::Taskflow>();
        for (size_t flow = 0; flow < outside; ++flow)
            graph->emplace([first = places() + flow * inside, inside](tf::Subflow& subflow) {
                for (size_t at = 0; at < inside; ++at) subflow.emplace([place = first + at] { place->mark(); });
                subflow.join();
            });
        return graph;
    }

    // A subflow for each call in the recursive computation of a Fibonacci number.
    static size_t calls(unsigned n) { return n < 2 ? 1 : 1 + calls(n - 1) + calls(n - 2); }

    static void fib_flow(tf::Subflow& subflow, unsigned n, Place* place, const std::vector<size_t>& sizes) {
        place->mark();
        if (n < 2) return;
        subflow.emplace([=, &sizes](tf::Subflow& inner) { fib_flow(inner, n - 1, place + 1, sizes); });
        subflow.emplace([=, &sizes](tf::Subflow& inner) {
            fib_flow(inner, n - 2, place + 1 + sizes[n - 1], sizes);
        });
        subflow.join();
    }

    static Graph fib(unsigned n) {
        static std::vector<size_t> sizes;
        sizes.clear();
        for (unsigned at = 0; at <= n; ++at) sizes.push_back(calls(at));
        auto graph = std::make_unique<tf::Taskflow>();
        graph->emplace([n](tf::Subflow& subflow) { fib_flow(subflow, n, places(), sizes); });
        return graph;
    }

    // Modules of ten tasks. The graphs inside outlive the one that is returned.
    static Graph modules(size_t tasks) {
        static std::vector<Graph> inside;
        auto graph = std::make_unique<tf::Taskflow>();
        for (size_t first = 0; first < tasks; first += 10) {
            auto& module = *inside.emplace_back(std::make_unique<tf::Taskflow>());
            for (size_t at = 0; at < 10; ++at) module.emplace([place = places() + first + at] { place->mark(); });
            graph->composed_of(module);
        }
        return graph;
    }

    // A task that spawns all others, and waits for them.
    static Graph spawns(size_t tasks) {
        auto graph = std::make_unique<tf::Taskflow>();
        graph->emplace([tasks](tf::Runtime& runtime) {
            for (size_t at = 0; at < tasks; ++at) runtime.silent_async([place = places() + at] { place->mark(); });
            runtime.corun_all();
        });
        return graph;
    }

    // Tasks that each start when the two before them have ended.
    static void dependent(Pool& pool, size_t tasks) {
        tf::AsyncTask before = pool.executor->silent_dependent_async([] {});
        tf::AsyncTask last = pool.executor->silent_dependent_async([] {});
        for (size_t at = 0; at < tasks; ++at) {
            auto next = pool.executor->silent_dependent_async([place = places() + at] { place->mark(); }, before, last);
            before = last;
            last = next;
        }
        pool.executor->wait_for_all();
    }

    static Graph semaphore(tf::Semaphore& one, size_t tasks) {
        auto graph = std::make_unique<tf::Taskflow>();
        for (size_t at = 0; at < tasks; ++at) {
            auto task = graph->emplace([place = places() + at] { place->mark(); });
            task.acquire(one);
            task.release(one);
        }
        return graph;
    }

    static void pipeline(Pool& pool, uint64_t tokens) {
        tf::Pipeline line(
            8,
            tf::Pipe{tf::PipeType::SERIAL,
                     [tokens](tf::Pipeflow& flow) {
                         if (flow.token() == tokens) flow.stop();
                     }},
            tf::Pipe{tf::PipeType::PARALLEL, [](tf::Pipeflow&) {}},
            tf::Pipe{tf::PipeType::SERIAL, [](tf::Pipeflow&) { places()->mark(); }});
        tf::Taskflow graph;
        graph.composed_of(line);
        pool.executor->run(graph).wait();
    }
};
