//! By NCCL between threads of one process, each with a device of its own.

use super::{THREADS, ended, hash_alone, start};
use std::process::Command;

/// What a process says whose threads have these devices, of two that there are.
fn threads(role: &str, devices: &str, change: impl Fn(&mut Command)) -> (Option<i32>, String) {
    let process = start(role, 1, |_, c| {
        c.env(THREADS, devices).env("ELINVAR_EMULATED_CUDA_DEVICES", "2");
        change(c);
    });
    ended(process).remove(0)
}

#[test]
fn one_hash_for_devices_of_one_process() {
    let said = |devices: &str, change: fn(&mut Command)| {
        let (code, said) = threads("train", devices, change);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let hash = hash_alone();
    assert_eq!(said("0,1", |_| {}), format!("{hash} by NCCL"));
    let without = |c: &mut Command| {
        c.env("ELINVAR_NCCL", "0");
    };
    assert_eq!(said("1,0", without), format!("{hash} through the host"));
    // NCCL cannot send from a device to itself.
    assert_eq!(said("1,1", |_| {}), format!("{hash} through the host"));
}

#[test]
fn all_calls_of_threads() {
    assert_eq!(threads("sum", "0,1", |_| {}), (Some(0), "SAID by NCCL".into()));
}

#[test]
fn what_is_asked_for_and_cannot_be_is_told() {
    let (code, said) = threads("sum", "0,0", |c| {
        c.env("ELINVAR_NCCL", "1");
    });
    let sentence = "workers 0 and 1 have one device, and NCCL sends from one to another";
    assert!(code == Some(1) && said.contains(sentence), "{said}");
    let (code, said) = threads("sum", "0,1", |c| {
        c.env("ELINVAR_MPI_CUDA", "1");
    });
    assert!(code == Some(1) && said.contains("these workers' messages go by other means"), "{said}");
    let (code, said) = threads("sum", "0,1", |c| {
        c.env("ELINVAR_NCCL", "perhaps");
    });
    assert!(code == Some(1) && said.contains("ELINVAR_NCCL: \"perhaps\""), "{said}");
}

#[test]
fn no_thread_waits_beyond_another_that_fails() {
    // One of them has no such device.
    let (code, said) = threads("train", "0,7", |c| {
        c.env("ELINVAR_NCCL", "1");
    });
    assert!(code == Some(1) && said.starts_with("ERROR "), "{said}");
}
