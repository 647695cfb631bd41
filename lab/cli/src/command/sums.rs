//! `elinvar-lab sums`: how long a sum over all workers takes, and how long the MPI library's own.
//!
//! Each worker has one shard. Both sums are made in turn, so that what else the machine does falls
//! on both; the median of each counts. The library may add in any order; ours is the balanced
//! tree, and its bits are compared with those of a sum by one worker.

use crate::args::Sums;
use elinvar::distributed::{Group, TreeSum};
use elinvar::{Error, Result};
use elinvar_cli_support::Verdict;
use std::io::Write;
use std::time::{Duration, Instant};

/// Numbers of very different sizes, another vector for each worker.
fn numbers(worker: usize, n: usize) -> Vec<f32> {
    let mut state = (worker as u32 + 1).wrapping_mul(0x9e37_79b9);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state as f32 / 2f32.powi(32) - 0.5) * 2f32.powi((state >> 27) as i32 - 16)
    };
    (0..n).map(|_| next()).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The sum by one worker.
fn alone(workers: usize, n: usize) -> Result<Vec<f32>> {
    let mut sum = TreeSum::new(0);
    for w in 0..workers {
        sum.push(numbers(w, n), |a, b| Ok(a.iter().zip(&b).map(|(a, b)| a + b).collect()))?;
    }
    Ok(sum.root(|a, b| Ok(a.iter().zip(&b).map(|(a, b)| a + b).collect()))?.unwrap_or_default())
}

/// Prints a row for each size, on worker 0.
pub fn run(args: &Sums, out: &mut dyn Write) -> Result<Verdict> {
    let group = Group::init()?;
    if group.size() == 1 {
        return Err(Error::argument("sums: one worker has nothing to send; mpirun -n 2 elinvar-lab sums"));
    }
    let is_first = group.rank() == 0;
    if is_first {
        writeln!(out, "{} workers, {}, median of {}\n", group.size(), group.transport(), args.times)?;
        writeln!(out, "| MiB of f32 | tree, ms | MPI_Allreduce, ms | ratio |\n|---|---|---|---|")?;
    }
    for mib in &args.mib {
        let n = mib << 18;
        let (x, want) = (numbers(group.rank(), n), alone(group.size(), n)?);
        let (mut own, mut library) = (vec![], vec![]);
        for i in 0..=args.times {
            group.barrier()?;
            let begin = Instant::now();
            let sum = group.all_reduce_slice(&x)?;
            let time = begin.elapsed();
            if !sum.iter().map(|v| v.to_bits()).eq(want.iter().map(|v| v.to_bits())) {
                return Err(Error::argument("sums: other bits than those of one worker"));
            }
            let mut sum = x.clone();
            group.barrier()?;
            let begin = Instant::now();
            group.library_sum(&mut sum)?;
            // The first of each warms up.
            if i > 0 {
                own.push(time);
                library.push(begin.elapsed());
            }
        }
        let (own, library) = (median(own).as_secs_f64(), median(library).as_secs_f64());
        if is_first {
            writeln!(out, "| {mib} | {:.2} | {:.2} | {:.2} |", own * 1e3, library * 1e3, library / own)?;
        }
    }
    Ok(Verdict::Good)
}
