//! Allowed CPUs and quotas.

use crate::fake::{Fake, symmetric};

fn machine() -> Fake {
    Fake::new(&symmetric([1, 1, 1, 8], 2))
}

const GROUPS: &str = "sys/fs/cgroup";

#[test]
fn a_part_of_a_cpu_counts_as_one() {
    let fake = machine();
    fake.group("/service");
    let with = |max: &str| {
        fake.write("sys/fs/cgroup/service/cpu.max", max);
        let topology = fake.read();
        (topology.quota(), topology.parallelism())
    };
    assert_eq!(with("50000 100000"), (Some(0.5), 1));
    assert_eq!(with("100000 100000"), (Some(1.0), 1));
    assert_eq!(with("250000 100000"), (Some(2.5), 3));
    assert_eq!(with("300000 100000"), (Some(3.0), 3));
    assert_eq!(
        with("9900000 100000"),
        (Some(99.0), 16),
        "no more than CPUs"
    );
    assert_eq!(with("max 100000"), (None, 16));
    let text = {
        with("250000 100000");
        fake.read().to_string()
    };
    assert!(
        text.contains("allowed: CPUs 0-15, quota 2.5 CPUs, so 3 workers by default"),
        "{text}"
    );
}

#[test]
fn a_quota_that_makes_no_sense_is_none() {
    let fake = machine();
    fake.group("/");
    for bad in [
        "",
        "0 100000",
        "100 0",
        "-1 100000",
        "many",
        "1e5 1e5",
        "100000",
    ] {
        fake.write("sys/fs/cgroup/cpu.max", bad);
        assert_eq!(
            (fake.read().quota(), fake.read().parallelism()),
            (None, 16),
            "{bad}"
        );
    }
}

#[test]
fn the_tightest_ancestor_counts() {
    let fake = machine();
    fake.group("/a/b/c");
    fake.write("sys/fs/cgroup/a/cpu.max", "400000 100000");
    fake.write("sys/fs/cgroup/a/b/cpu.max", "150000 100000");
    fake.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
    // No ancestor of the group, although its name begins like one.
    fake.write("sys/fs/cgroup/a/b/d/cpu.max", "10000 100000");
    fake.write("sys/fs/cgroup/a/b/c/d/cpu.max", "10000 100000");
    assert_eq!(fake.read().quota(), Some(1.5));
    fake.write("sys/fs/cgroup/a/b/c/cpu.max", "120000 100000");
    assert_eq!(fake.read().quota(), Some(1.2));
    fake.write("sys/fs/cgroup/cpu.max", "50000 100000");
    assert_eq!(fake.read().quota(), Some(0.5));
}

#[test]
fn version_1_has_a_group_for_each_controller() {
    let fake = machine();
    let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                  40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd";
    fake.write("proc/self/mountinfo", mounts);
    fake.write(
        "proc/self/cgroup",
        "4:cpuset:/x\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/init\n0::/",
    );
    let cpu = |group: &str, quota: &str, period: &str| {
        fake.write(
            &format!("{GROUPS}/cpu,cpuacct{group}/cpu.cfs_quota_us"),
            quota,
        );
        fake.write(
            &format!("{GROUPS}/cpu,cpuacct{group}/cpu.cfs_period_us"),
            period,
        );
    };
    cpu("", "-1", "100000");
    cpu("/jobs", "75000", "50000");
    cpu("/jobs/7", "200000", "100000");
    fake.write("sys/fs/cgroup/cpuset/x/cpuset.cpus", "2-5");
    let topology = fake.read();
    assert_eq!((topology.quota(), topology.parallelism()), (Some(1.5), 2));
    assert_eq!(topology.allowed().to_string(), "2-5");
}

#[test]
fn a_container_sees_its_own_group_as_the_root() {
    let fake = machine();
    let mount = "32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
    fake.write("proc/self/mountinfo", mount);
    fake.write("proc/self/cgroup", "3:cpu:/docker/0123/inner");
    fake.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000");
    fake.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    assert_eq!(fake.read().quota(), Some(3.0));
    fake.write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "200000");
    fake.write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000");
    assert_eq!(fake.read().quota(), Some(2.0));
    // A group of another namespace: what is mounted counts.
    for path in ["3:cpu:/elsewhere", "3:cpu:/../../x", "3:cpu:/docker/01234"] {
        fake.write("proc/self/cgroup", path);
        assert_eq!(fake.read().quota(), Some(3.0), "{path}");
    }
}

#[test]
fn without_a_list_of_mounts_the_usual_places_count() {
    let fake = machine();
    fake.write("sys/fs/cgroup/cpu.max", "250000 100000");
    assert_eq!(fake.read().quota(), Some(2.5));
    fake.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
    fake.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    assert_eq!(fake.read().quota(), Some(1.5));
}

#[test]
fn a_folder_with_a_space_is_found() {
    let fake = machine();
    let mount = r"30 23 0:26 / /sys/fs/my\040groups rw - cgroup2 cgroup2 rw";
    fake.write("proc/self/mountinfo", mount);
    fake.write("proc/self/cgroup", "0::/");
    fake.write("sys/fs/my groups/cpu.max", "100000 100000");
    assert_eq!(fake.read().quota(), Some(1.0));
}

#[test]
fn a_set_of_cpus_may_have_holes() {
    let fake = machine();
    fake.allow("1,3,6-9");
    let topology = fake.read();
    assert_eq!(topology.allowed().to_string(), "1,3,6-9");
    assert_eq!((topology.parallelism(), topology.cpus().len()), (6, 16));
    // The groups allow less, and an ancestor less still.
    fake.group("/a/b");
    fake.write("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-7");
    assert_eq!(fake.read().allowed().to_string(), "1,3,6-7");
    fake.write("sys/fs/cgroup/a/cpuset.cpus.effective", "3-5,7");
    assert_eq!(fake.read().allowed().to_string(), "3,7");
    // CPUs that do not exist, nonsense, and sets that would leave nothing.
    fake.write("sys/fs/cgroup/a/cpuset.cpus.effective", "100-200");
    assert_eq!(fake.read().allowed().to_string(), "1,3,6-7");
    fake.write("sys/fs/cgroup/a/b/cpuset.cpus.effective", "x");
    assert_eq!(fake.read().allowed().to_string(), "1,3,6-9");
    fake.allow("100-200");
    assert_eq!(
        fake.read().allowed().to_string(),
        "0-15",
        "the program runs on one of them"
    );
}
