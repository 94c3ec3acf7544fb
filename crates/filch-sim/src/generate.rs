//! Random cases, generated from one seed.
//!
//! All parameters are small. A queue of two slots is often full, and a worker that searches once
//! before it sleeps often sleeps, so rare situations of large parameters are frequent here.

use crate::{
    case::Case,
    config::{Config, Costs, Idle, Overflow, Queues},
    fault::Fault,
    program::{Act, Body, Op, Outside, Program},
    schedule::Scheduler,
};
use filch::{
    Rng,
    engine::{Ageing, Priority, WakePolicy},
};

/// The maximum number of tasks of a random program, which gives runs of some hundred moves.
const MAX_TASKS: u64 = 200;

/// XORed with the seed of a case for the choices of levels and workers. The value is arbitrary.
const LEVELS_SALT: u64 = 0x6c65_7665_6c73;

/// Returns the case of `seed`.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let workers = match rng.below(16) {
        // Around 64, the number of bits of a word.
        0 if rng.one_in(2) => 60 + rng.below(11),
        0 => 9 + rng.below(51),
        1 | 2 => 1,
        _ => 2 + rng.below(7),
    };
    let mut config = config(rng, workers);
    let mut program = program(rng);
    from_outside(rng, &mut program);
    if rng.one_in(2) {
        enters_and_leaves(rng, &mut config, &mut program);
    }
    // A generator of its own, so that the rest of the case does not depend on these choices.
    let more = &mut Rng::new(seed ^ LEVELS_SALT);
    if more.one_in(2) {
        levels(more, &mut config, &mut program);
    }
    // A stable sort: events of equal times keep the order of the list.
    program.outside.sort_by_key(|outside| outside.at);
    Case {
        note: String::new(),
        canary: None,
        faults: (0..rng.below(5)).map(|_| fault(rng, workers)).collect(),
        scheduler: scheduler(rng),
        config,
        program,
    }
}

fn pick<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len())].clone()
}

fn config(rng: &mut Rng, workers: usize) -> Config {
    let steal_batch = pick(rng, &[1, 2, 3, 512]);
    let queues = match rng.below(6) {
        0 => Queues::Shared {
            capacity: pick(rng, &[None, Some(1), Some(3)]),
        },
        1 | 2 => Queues::Bounded {
            capacity: 1 + rng.below(4),
            steal_batch,
        },
        _ => Queues::Growable {
            initial: 1 + rng.below(4),
            steal_batch,
        },
    };
    let wake = match rng.below(8) {
        0 => WakePolicy::OncePerBatch,
        1 => WakePolicy::EveryKth(1 + rng.below(4) as u32),
        2 => WakePolicy::OnHoard(1 + rng.below(4) as u32),
        _ => WakePolicy::EveryPush,
    };
    let seed = rng.next_u64();
    Config {
        seed,
        // Derived from the seed and not drawn, so that old seeds still give the same other choices.
        cores: [0, 1, 1, 2][(seed % 4) as usize],
        wake_fanout: [0, 0, 1, 2][(seed / 4 % 4) as usize],
        batch_from: [0, 0, 2, 8][(seed / 16 % 4) as usize],
        node_affinity: seed / 16 % 2 == 1,
        queues,
        overflow: pick(rng, &[Overflow::Spill, Overflow::Inline, Overflow::Return]),
        wake,
        idle: Idle {
            spin_rounds: rng.below(5) as u32,
            yield_every: rng.below(3) as u32,
            longest_pause: 1 + rng.below(3) as u32,
            // Longer with more workers, because each worker's search takes a move or more.
            park_timeout: rng
                .one_in(4)
                .then(|| (5 + rng.below(200) * (1 + workers / 8)) as u64),
        },
        steal_tries: pick(rng, &[1, 1, 2, 3, 32]),
        inject_batch: pick(rng, &[1, 2, 4, 64]),
        inject_interval: pick(rng, &[0, 1, 2, 5, 61]),
        inject_capacity: pick(rng, &[None, None, Some(1), Some(4)]),
        groups: pick(rng, &[vec![], vec![], vec![2], vec![4]]),
        costs: costs(rng),
        ..Config::new(workers)
    }
}

fn costs(rng: &mut Rng) -> Costs {
    match rng.below(3) {
        0 => Costs::free(),
        1 => Costs::default(),
        _ => Costs {
            step: rng.below(3) as u64,
            spawn: rng.below(2) as u64,
            inject: rng.below(4) as u64,
            steal: vec![rng.below(4) as u64, rng.below(8) as u64],
            pause: rng.below(2) as u64,
            yield_now: rng.below(4) as u64,
            wake: rng.below(20) as u64,
            ..Costs::free()
        },
    }
}

/// Generates a program whose bodies spawn only later bodies, so it terminates.
fn program(rng: &mut Rng) -> Program {
    loop {
        let count = 1 + rng.below(6);
        let bodies = (0..count)
            .map(|index| Body {
                name: name(index),
                ops: (0..rng.below(7))
                    .map(|_| op(rng, index, count, true))
                    .collect(),
            })
            .collect();
        let mut program = Program {
            bodies,
            outside: Vec::new(),
            joins: Vec::new(),
        };
        // One root per body, to compute the sizes.
        program.outside = (0..count)
            .map(|index| Outside {
                at: 0,
                act: inject(index, 1),
            })
            .collect();
        let tasks = program.tasks().expect("later bodies only");
        program.outside.clear();
        if tasks <= MAX_TASKS {
            return program;
        }
    }
}

fn name(index: usize) -> String {
    format!("b{index}")
}

fn op(rng: &mut Rng, index: usize, count: usize, outer: bool) -> Op {
    let later = count - index - 1;
    match rng.below(12) {
        0..=4 if later > 0 => Op::SpawnLocal(name(index + 1 + rng.below(later))),
        5 if later > 0 => Op::SpawnGlobal(name(index + 1 + rng.below(later))),
        6 if rng.one_in(2) => Op::Yield,
        7 if rng.one_in(4) => Op::Panic,
        8 | 9 if outer => Op::Repeat {
            times: 1 + rng.below(6) as u32,
            ops: vec![op(rng, index, count, false)],
        },
        // Mostly short, sometimes so long that all other workers are asleep by the end.
        _ => Op::Work(if rng.one_in(4) {
            100 + rng.below(900)
        } else {
            rng.below(20)
        } as u64),
    }
}

fn inject(body: usize, count: usize) -> Act {
    Act::Inject {
        body: name(body),
        count,
        level: Priority::Normal,
        worker: None,
    }
}

/// Returns the time of an external event: clustered at the start, or spread over the run.
fn time(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => 0,
        1 => rng.below(50) as u64,
        _ => rng.below(1_500) as u64,
    }
}

fn from_outside(rng: &mut Rng, program: &mut Program) {
    for _ in 0..1 + rng.below(6) {
        // Mostly early bodies, because they spawn more.
        let some = 1 + rng.below(program.bodies.len());
        let body = rng.below(some);
        let count = if rng.one_in(4) { 2 + rng.below(5) } else { 1 };
        let at = time(rng);
        program.outside.push(Outside {
            at,
            act: inject(body, count),
        });
    }
    if rng.one_in(3) {
        let at = time(rng);
        program.outside.push(Outside {
            at,
            act: Act::Close,
        });
    }
    if rng.one_in(8) {
        let at = time(rng);
        program.outside.push(Outside { at, act: Act::Stop });
    }
}

/// Adds workers that enter late and leave during the run; worker 0 stays.
fn enters_and_leaves(rng: &mut Rng, config: &mut Config, program: &mut Program) {
    for worker in 1..config.workers.min(10) {
        let absent = rng.one_in(3);
        if absent {
            config.absent.push(worker);
        }
        let mut present = !absent;
        let mut at = time(rng);
        // A few changes or many.
        let times = [2, 6, 20][rng.below(3)];
        for _ in 0..rng.below(times) {
            at += rng.below(60) as u64;
            program.outside.push(Outside {
                at,
                act: if present {
                    Act::Leave(worker)
                } else {
                    Act::Enter(worker)
                },
            });
            present = !present;
        }
    }
}

/// Gives some tasks a level, and some an affinity.
fn levels(rng: &mut Rng, config: &mut Config, program: &mut Program) {
    if rng.one_in(2) {
        config.ageing = Ageing {
            high: rng.below(4) as u32,
            normal: rng.below(5) as u32,
            low: rng.below(6) as u32,
        };
    }
    // Levels, affinities or both, and how often.
    let (by_level, by_worker) = pick(rng, &[(true, false), (false, true), (true, true)]);
    let one_in = 1 + rng.below(4);
    let choose = |rng: &mut Rng| {
        let marked = rng.one_in(one_in);
        let for_worker = by_worker && (!by_level || rng.one_in(2));
        let level = pick(
            rng,
            &[
                Priority::Low,
                Priority::Normal,
                Priority::High,
                Priority::Critical,
            ],
        );
        // Mostly for the first workers, so that they are overloaded.
        let some = 1 + rng.below(config.workers);
        let worker = rng.below(some);
        marked.then_some((level, for_worker.then_some(worker)))
    };
    for body in &mut program.bodies {
        for op in &mut body.ops {
            let inner = match op {
                Op::Repeat { ops, .. } => ops.first_mut(),
                op => Some(op),
            };
            if let Some(op) = inner
                && let Op::SpawnLocal(body) | Op::SpawnGlobal(body) = op
                && let Some((level, worker)) = choose(rng)
            {
                let body = body.clone();
                *op = match worker {
                    Some(worker) => Op::SpawnFor { worker, body },
                    None => Op::SpawnAt { level, body },
                };
            }
        }
    }
    for outside in &mut program.outside {
        if let Act::Inject { level, worker, .. } = &mut outside.act
            && let Some((chosen, owner)) = choose(rng)
        {
            *worker = owner;
            *level = if owner.is_some() {
                Priority::Normal
            } else {
                chosen
            };
        }
    }
}

fn fault(rng: &mut Rng, workers: usize) -> Fault {
    let worker = rng.below(workers);
    match rng.below(5) {
        0 => Fault::Stall {
            worker,
            from: rng.below(200) as u64,
            moves: 1 + rng.below(100) as u64,
        },
        1 => Fault::Panic {
            task: 1 + rng.below(50) as u64,
        },
        2 => Fault::LateWake {
            wake: 1 + rng.below(10) as u64,
            ticks: rng.below(1_000) as u64,
        },
        3 => Fault::Refuse {
            push: 1 + rng.below(40) as u64,
        },
        _ => Fault::Spurious {
            worker,
            at: time(rng),
        },
    }
}

fn scheduler(rng: &mut Rng) -> Scheduler {
    let seed = rng.next_u64();
    let preempt = pick(rng, &[0, 2, 4, 8]);
    match rng.below(10) {
        0 => Scheduler::RoundRobin,
        1..=3 => Scheduler::Pct {
            seed,
            changes: rng.below(6),
            length: 20 + rng.below(300) as u64,
            preempt,
        },
        _ => Scheduler::Random {
            seed,
            jump: pick(rng, &[0, 4, 32]),
            preempt,
        },
    }
}
