//! `elinvar-lab sums`: how long a sum over all workers takes, and how long the MPI library's own.
//!
//! Each worker has one shard. Both sums are made in turn, so that what else the machine does falls
//! on both; the shortest and the median of each are told. The library may add in any order; ours is
//! the balanced tree, and its bits are compared with those of a sum by one worker.

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

/// The shortest and the median of some times, in milliseconds.
fn told(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [times[0], times[times.len() / 2]].map(|time| time.as_secs_f64() * 1e3)
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
        writeln!(
            out,
            "{} workers, {}, shortest and median of {}\n",
            group.size(),
            group.transport(),
            args.times
        )?;
        writeln!(
            out,
            "| KiB of f32 | tree, ms | MPI_Allreduce, ms | ratio | tree, median | MPI_Allreduce, median | ratio |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
    }
    for kib in &args.kib {
        let n = kib << 8;
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
        let (own, library) = (told(own), told(library));
        if is_first {
            write!(out, "| {kib} |")?;
            for (own, library) in own.iter().zip(library) {
                write!(out, " {own:.4} | {library:.4} | {:.2} |", library / own)?;
            }
            writeln!(out)?;
        }
    }
    Ok(Verdict::Good)
}
