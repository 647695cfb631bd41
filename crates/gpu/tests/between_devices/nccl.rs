//! By NCCL, of which there is a stand-in: workers are processes that meet by TCP.

use super::{all_say, ended, hash_alone, start};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn one_hash_for_any_number_of_devices() {
    let hash = hash_alone();
    for workers in [2, 3, 4] {
        all_say(start("train", workers, |_, _| {}), &format!("{hash} by NCCL"));
    }
    all_say(start("zero", 3, |_, _| {}), &format!("{hash} by NCCL"));
    // One whose device is another goes the same way as all others.
    let mixed = start("train", 2, |rank, c| {
        if rank == 1 {
            c.env("WORKER_DEVICE", "cpu");
        }
    });
    all_say(mixed, &format!("{hash} through the host"));
    let without = start("train", 2, |rank, c| {
        if rank == 1 {
            c.env("ELINVAR_NCCL", "0");
        }
    });
    all_say(without, &format!("{hash} through the host"));
}

#[test]
fn all_calls_with_tensors() {
    for workers in [2, 3, 4] {
        all_say(start("sum", workers, |_, _| {}), "SAID by NCCL");
    }
}

#[test]
fn workers_that_call_something_else_are_told() {
    let rows = [
        (
            "dtype",
            "calls all_reduce of 3 f64 from 2 shards (its call 2) where this one calls all_reduce of 3 f32 from 2 shards",
        ),
        ("shape", "calls all_reduce of 6 f32 from 2 shards with a tensor of another shape"),
        (
            "order",
            "calls broadcast of 3 f32 of worker 0 (its call 3) where this one calls all_reduce of 3 f32",
        ),
    ];
    for (role, sentence) in rows {
        let said = ended(start(role, 2, |_, _| {}));
        assert!(said[0].0 == Some(1) && said[0].1.contains(sentence), "{role}: {said:?}");
        assert!(said[1].0 == Some(1) && said[1].1.starts_with("ERROR "), "{role}: {said:?}");
    }
}

#[test]
fn no_one_waits_for_a_worker_that_is_killed() {
    let mut workers = start("wait", 3, |_, _| {});
    // In the middle of its calls.
    thread::sleep(Duration::from_secs(3));
    workers[1].kill().unwrap();
    let since = Instant::now();
    let said = ended(workers);
    for rank in [0, 2] {
        let (code, told) = &said[rank];
        assert!(*code == Some(1) && told.starts_with("ERROR distributed: worker "), "{rank}: {said:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn no_one_waits_beyond_the_time_limit() {
    let since = Instant::now();
    let said = ended(start("wait", 2, |rank, c| {
        c.env("ELINVAR_TIME_LIMIT", "4");
        if rank == 1 {
            c.env("ELINVAR_EMULATED_NCCL", "silent");
        }
    }));
    let is_told = |(code, told): &(Option<i32>, String)| *code == Some(1) && told.starts_with("ERROR ");
    assert!(said.iter().all(is_told), "{said:?}");
    let late = "what a worker sends by NCCL has not come within the time limit";
    assert!(said.iter().any(|(_, told)| told.contains(late)), "{said:?}");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn a_library_that_is_missing_or_fails() {
    let nowhere = |asked: bool| {
        start("sum", 2, move |_, c| {
            c.env("ELINVAR_NCCL_LIBRARY", "/nowhere/libnccl.so.2");
            if asked {
                c.env("ELINVAR_NCCL", "1");
            }
        })
    };
    all_say(nowhere(false), "SAID through the host");
    for (code, said) in ended(nowhere(true)) {
        let sentence = "distributed: no NCCL: /nowhere/libnccl.so.2 cannot be loaded";
        assert!(
            code == Some(1) && said.contains(sentence) && said.contains("ELINVAR_NCCL_LIBRARY"),
            "{said}"
        );
    }
    // Another library under its name.
    let other = ended(start("sum", 2, |_, c| {
        c.env("ELINVAR_NCCL_LIBRARY", emulated_cuda::library().unwrap()).env("ELINVAR_NCCL", "1");
    }));
    assert!(
        other.iter().all(|(code, said)| *code == Some(1) && said.contains("has no function nccl")),
        "{other:?}"
    );
    // A worker that does not get to the others.
    let failing = |asked: bool| {
        start("sum", 2, move |_, c| {
            c.env("ELINVAR_EMULATED_NCCL", "join");
            if asked {
                c.env("ELINVAR_NCCL", "1");
            }
        })
    };
    all_say(failing(false), "SAID through the host");
    for (code, said) in ended(failing(true)) {
        assert!(code == Some(1) && said.contains("ncclCommInitRank: unhandled system error"), "{said}");
    }
    // Asked for, and the device of one is another.
    let said = ended(start("sum", 2, |rank, c| {
        c.env("ELINVAR_NCCL", "1");
        if rank == 1 {
            c.env("WORKER_DEVICE", "cpu");
        }
    }));
    assert!(said[0].1.contains("worker 1 cannot use it"), "{said:?}");
    assert!(
        said[1].1.contains("NCCL sends what CUDA devices have, and this worker's device is cpu"),
        "{said:?}"
    );
}
