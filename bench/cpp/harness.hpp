// Interleaved samples, medians and tables, as src/harness.rs and src/report.rs for the systems in
// Rust.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <optional>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

// The command line. Empty lists mean all.
struct Config {
    bool quick = false;
    std::vector<std::string> cases, systems;
    std::vector<int> workers{1, 2};
    bool workers_given = false;

    template <class T>
    T pick(T short_form, T full) const {
        return quick ? short_form : full;
    }

    static bool has(const std::vector<std::string>& names, const std::string& name) {
        return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
    }
};

// The cores that the process was allowed to use at start.
inline const std::vector<int>& cores() {
    static const std::vector<int> cores = [] {
        cpu_set_t set;
        CPU_ZERO(&set);
        sched_getaffinity(0, sizeof set, &set);
        std::vector<int> allowed;
        for (int core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(core, &set)) allowed.push_back(core);
        return allowed;
    }();
    return cores;
}

// Pins a thread: worker i to core i modulo the number of cores; thread 0 means the caller.
inline void place(int worker, pid_t thread = 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores()[worker % cores().size()], &set);
    sched_setaffinity(thread, sizeof set, &set);
}

inline std::set<pid_t> threads() {
    std::set<pid_t> found;
    DIR* tasks = opendir("/proc/self/task");
    while (dirent* entry = readdir(tasks))
        if (entry->d_name[0] != '.') found.insert(std::atoi(entry->d_name));
    closedir(tasks);
    return found;
}

// Bytes of the heap that are in use.
inline double heap() {
    const struct mallinfo2 info = mallinfo2();
    return double(info.uordblks) + double(info.hblkhd);
}

struct Sample {
    double nanos;
    double ops;
    std::optional<double> bytes;
};

struct Stopwatch {
    double nanos = 0;

    template <class F>
    void time(F&& part) {
        const auto start = Clock::now();
        part();
        nanos += std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    }
};

// Pause before each sample, so that all workers sleep when it starts.
inline void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

struct Case {
    struct System {
        std::string name;
        std::function<Sample()> sample;
    };

    std::string name;
    int workers;
    int rounds;
    bool millis = false;
    std::vector<System> systems;

    void run() {
        place(0);
        std::vector<std::vector<double>> readings(systems.size());
        std::vector<std::optional<double>> bytes(systems.size());
        // The first round does not count.
        for (int round = 0; round <= rounds; ++round)
            for (size_t i = 0; i < systems.size(); ++i) {
                rest();
                const Sample sample = systems[i].sample();
                if (round > 0) readings[i].push_back(sample.nanos / sample.ops);
                else if (sample.bytes) bytes[i] = *sample.bytes / sample.ops;
            }
        print(readings, bytes);
    }

private:
    static double quantile(const std::vector<double>& sorted, double q) {
        const double place = q * double(sorted.size() - 1);
        const double below = sorted[size_t(std::floor(place))];
        const double above = sorted[size_t(std::ceil(place))];
        return below + (above - below) * (place - std::floor(place));
    }

    static std::string number(double value) {
        char text[32];
        std::snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
        return text;
    }

    void print(std::vector<std::vector<double>>& readings,
               const std::vector<std::optional<double>>& bytes) const {
        double seq = 0;
        for (size_t i = 0; i < systems.size(); ++i) {
            std::sort(readings[i].begin(), readings[i].end());
            if (systems[i].name == "seq") seq = quantile(readings[i], 0.5);
        }
        const bool sized = std::any_of(bytes.begin(), bytes.end(), [](auto& b) { return b.has_value(); });
        const double scale = millis ? 1e-6 : 1;
        std::printf("\ngraph / %s, %d worker%s; worker i pinned to core i mod %zu, main thread to core 0\n",
                    name.c_str(), workers, workers == 1 ? "" : "s", cores().size());
        std::printf("%-14s %7s %14s %8s", "system", "workers", millis ? "median ms" : "median ns/op", "spread");
        if (sized) std::printf(" %8s", "bytes/op");
        std::printf(" %7s\n", millis ? "x seq" : "to seq");
        for (size_t i = 0; i < systems.size(); ++i) {
            const double median = quantile(readings[i], 0.5);
            const double width = quantile(readings[i], 0.75) - quantile(readings[i], 0.25);
            std::printf("%-14s %7d %14s %7.1f%%", systems[i].name.c_str(), workers,
                        number(median * scale).c_str(), 100 * width / median);
            if (sized) std::printf(" %8s", bytes[i] ? number(*bytes[i]).c_str() : "-");
            if (seq > 0) std::printf(" %7.2f\n", millis ? seq / median : median / seq);
            else std::printf(" %7s\n", "-");
        }
        std::fflush(stdout);
    }
};

inline std::vector<std::string> list(const std::string& text) {
    std::vector<std::string> names;
    std::istringstream in(text);
    for (std::string name; std::getline(in, name, ',');) names.push_back(name);
    return names;
}

// Exits if the command line is invalid.
inline Config parse(int argc, char** argv) {
    Config config;
    const auto fail = [](const std::string& what) {
        std::fprintf(stderr, "graph: %s; options: --quick, --workers N,.. --case NAME,.. --system NAME,..\n",
                     what.c_str());
        std::exit(2);
    };
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--quick") {
            config.quick = true;
            continue;
        }
        if (option != "--workers" && option != "--case" && option != "--system") fail("what is " + option + "?");
        if (++i == argc) fail(option + " needs a list");
        if (option == "--case") config.cases = list(argv[i]);
        if (option == "--system") config.systems = list(argv[i]);
        if (option == "--workers") {
            config.workers.clear();
            config.workers_given = true;
            for (const auto& number : list(argv[i])) {
                config.workers.push_back(std::atoi(number.c_str()));
                if (config.workers.back() < 1) fail(number + " is no number of workers");
            }
        }
    }
    return config;
}
