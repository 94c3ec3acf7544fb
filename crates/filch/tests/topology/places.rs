//! Which workers get which CPUs.

use crate::fake::{Fake, hybrid, symmetric};
use filch::topology::{Distance, PinOrder, Pinning, Topology, WorkerPlaces};

fn cpus(places: &WorkerPlaces) -> Vec<String> {
    let workers = 0..places.workers();
    workers
        .map(|worker| places.cpus(worker).to_string())
        .collect()
}

fn compact(topology: &Topology, workers: usize, pinning: &Pinning) -> WorkerPlaces {
    topology.place(workers, pinning, PinOrder::Compact).unwrap()
}

fn spread(topology: &Topology, workers: usize, pinning: &Pinning) -> WorkerPlaces {
    topology.place(workers, pinning, PinOrder::Spread).unwrap()
}

#[test]
fn workers_get_cores_before_second_threads() {
    let topology = Fake::new(&symmetric([1, 1, 1, 4], 2)).read();
    assert_eq!(
        cpus(&compact(&topology, 3, &Pinning::Core)),
        ["0,4", "1,5", "2,6"]
    );
    let all = compact(&topology, 9, &Pinning::Core);
    assert_eq!(cpus(&all)[3..], ["3,7", "0,4", "1,5", "2,6", "3,7", "0,4"]);
    assert_eq!(all.distance(0, 4), Distance::Core);
    assert_eq!(all.distance(0, 1), Distance::L3);
}

#[test]
fn compact_workers_fill_a_node_and_spread_ones_alternate() {
    // Two nodes, each with two L3 groups of two cores.
    let topology = Fake::new(&symmetric([2, 1, 2, 2], 1)).read();
    assert_eq!(
        cpus(&compact(&topology, 4, &Pinning::Core)),
        ["0", "1", "2", "3"]
    );
    assert_eq!(
        cpus(&spread(&topology, 5, &Pinning::Core)),
        ["0", "4", "2", "6", "1"]
    );
    assert_eq!(
        cpus(&compact(&topology, 3, &Pinning::L3)),
        ["0-1", "0-1", "2-3"]
    );
    assert_eq!(
        cpus(&spread(&topology, 3, &Pinning::L3)),
        ["0-1", "4-5", "2-3"]
    );
    assert_eq!(
        cpus(&compact(&topology, 5, &Pinning::Node)),
        ["0-3", "0-3", "0-3", "0-3", "4-7"]
    );
    assert_eq!(cpus(&spread(&topology, 2, &Pinning::Node)), ["0-3", "4-7"]);
}

#[test]
fn distances_are_those_that_hold_wherever_a_worker_runs() {
    let topology = Fake::new(&symmetric([2, 1, 2, 2], 1)).read();
    let l3 = compact(&topology, 8, &Pinning::L3);
    assert_eq!(
        l3.distance(0, 1),
        Distance::L3,
        "they may or may not be on one core"
    );
    assert_eq!(l3.distance(0, 2), Distance::Node);
    assert_eq!(l3.distance(0, 4), Distance::Far);
    let node = compact(&topology, 8, &Pinning::Node);
    assert_eq!(
        (node.distance(0, 3), node.distance(0, 4)),
        (Distance::Node, Distance::Far)
    );
    assert_eq!((node.node(0), node.node(4)), (Some(0), Some(1)));
    let anywhere = compact(&topology, 8, &Pinning::None);
    assert_eq!(
        (anywhere.distance(0, 1), anywhere.node(0)),
        (Distance::Far, None)
    );
    assert_eq!(cpus(&anywhere)[7], "0-7");
}

#[test]
fn places_are_inside_of_the_allowed_cpus() {
    let fake = Fake::new(&symmetric([2, 1, 1, 4], 1));
    fake.allow("1,3,6");
    let topology = fake.read();
    assert_eq!(
        cpus(&compact(&topology, 4, &Pinning::Core)),
        ["1", "3", "6", "1"]
    );
    assert_eq!(
        cpus(&spread(&topology, 4, &Pinning::Core)),
        ["1", "6", "3", "1"]
    );
    // The second node gets one worker of three, since it has one CPU of three.
    assert_eq!(
        cpus(&spread(&topology, 3, &Pinning::Node)),
        ["1,3", "6", "1,3"]
    );
}

#[test]
fn fast_cores_come_first() {
    let topology = Fake::new(&hybrid()).read();
    for order in [PinOrder::Compact, PinOrder::Spread] {
        let places = topology.place(9, &Pinning::Core, order).unwrap();
        assert_eq!(cpus(&places)[..2], ["0-1", "2-3"]);
        assert_eq!(
            cpus(&places)[7..],
            ["14-15", "16"],
            "then the slow ones, alone"
        );
    }
}

#[test]
fn a_list_is_taken_as_it_is() {
    let fake = Fake::new(&symmetric([1, 1, 1, 4], 2));
    fake.allow("0-2,5,7");
    let topology = fake.read();
    let list = |cpus: &[usize], workers| {
        let places = topology.place(workers, &Pinning::List(cpus.to_vec()), PinOrder::Spread);
        places
            .map(|places| self::cpus(&places))
            .map_err(|error| error.to_string())
    };
    assert_eq!(list(&[7, 0, 5], 3).unwrap(), ["7", "0", "5"]);
    assert_eq!(list(&[7, 0, 5], 1).unwrap(), ["7"]);
    assert_eq!(list(&[7, 0, 5], 0).unwrap(), [""; 0]);
    for (cpus, workers, parts) in [
        (&[0, 3][..], 2, ["CPU 3;", "allowed CPUs are 0-2,5,7"]),
        (
            &[0, 100_000],
            2,
            ["CPU 100000;", "allowed CPUs are 0-2,5,7"],
        ),
        (
            &[0, usize::MAX],
            2,
            ["CPU 18446744073709551615;", "0-2,5,7"],
        ),
        (
            &[1, 0, 1],
            3,
            ["CPU 1 is in the list of CPUs more than once", "0-2,5,7"],
        ),
        (
            &[1, 0],
            3,
            ["only 2 CPUs in the list to pin 3 workers", "0-2,5,7"],
        ),
        (&[1], 2, ["only 1 CPU in the list", "0-2,5,7"]),
        (&[], 0, ["no CPU in the list", "0-2,5,7"]),
    ] {
        let error = list(cpus, workers).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn many_workers_on_many_cpus_have_places() {
    let topology = Fake::new(&symmetric([2, 4, 4, 8], 2)).read();
    let places = spread(&topology, 4096, &Pinning::Core);
    let near = (0..4096).filter(|&worker| places.distance(0, worker) == Distance::Core);
    assert_eq!(near.count(), 16);
    // The first eight are on eight nodes.
    let mut nodes: Vec<_> = (0..8).map(|worker| places.node(worker).unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2, 3, 4, 5, 6, 7]);
}
