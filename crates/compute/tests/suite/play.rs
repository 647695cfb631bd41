//! Random calls on every backend. `ELINVAR_FUZZ_SECONDS` goes on for so long.

use crate::model::Player;
use crate::{TYPES, fast, reference};
use elinvar_compute::ComputeBackend;
use elinvar_core::DType;
use std::time::{Duration, Instant};

/// How many of the steps of the processor a backend goes.
fn steps(name: &str, dtype: DType, all: usize) -> usize {
    match (name, dtype) {
        // Every new kernel is compiled for a software device, those of f64 for seconds.
        ("vulkan", DType::F64) => 0,
        ("vulkan" | "cuda" | "rocm", _) => all / 20,
        _ => all,
    }
}

/// So many steps from a seed, and how many they are.
fn play(raw: &dyn ComputeBackend, dtype: DType, seed: u64, steps: usize) -> usize {
    let mut player = Player::new(raw, dtype, seed);
    for step in 0..steps {
        let run = std::panic::AssertUnwindSafe(|| {
            player.step();
            if step % 8 == 7 {
                player.compare();
            }
        });
        if std::panic::catch_unwind(run).is_err() {
            panic!("{} {dtype}: seed {seed}, step {step}", raw.name());
        }
    }
    player.compare();
    player.end();
    steps
}

/// So many steps of the processor on every backend.
fn play_all(seeds: [u64; 2], all: usize) -> usize {
    let on = |dtype| {
        let fast = fast(dtype);
        let of_fast = fast.iter().map(|raw| play(&**raw, dtype, seeds[1], steps(raw.name(), dtype, all)));
        play(&reference(dtype), dtype, seeds[0], all) + of_fast.sum::<usize>()
    };
    TYPES.into_iter().map(on).sum()
}

#[test]
fn random_calls_agree_with_the_model() {
    let mut calls = play_all([1, 2], 3000);
    let seconds = std::env::var("ELINVAR_FUZZ_SECONDS").ok().map_or(0, |s| s.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    for seed in 3.. {
        if Instant::now() >= end {
            break;
        }
        calls += play_all([seed; 2], 2000);
    }
    println!("{calls} calls agree with the model");
}
