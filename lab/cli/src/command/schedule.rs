//! `elinvar-lab schedule`: how long a training step takes on many workers, by a model of the
//! messages that a step sends.
//!
//! The model: a worker has one link each way. A message occupies the sender's link for `overhead +
//! bytes / bandwidth`, is on its way for `latency`, and then occupies the receiver's link as long.
//! Links take messages in the order in which they come. The messages are those of a step: each
//! worker sends each other one its part of the partial sums, right neighbour first, and when it has
//! all of its own part, the sum of it in the same order. Computing is `compute` times the shards of
//! a worker; sums begin when it ends, and nothing is sent meanwhile.
//!
//! How it can be wrong: switches that are shared, workers of different speeds, memory that limits
//! the sums. None of them is in the model.

use crate::args::Schedule;
use elinvar::Result;
use elinvar::distributed::Runs;
use elinvar::distributed::tree::part;
use elinvar_cli_support::Verdict;
use std::io::Write;

/// Bytes of an element, f32.
const SIZE: usize = 4;

/// A network, in seconds and bytes.
#[derive(Clone, Copy, Debug)]
struct Net {
    latency: f64,
    overhead: f64,
    bandwidth: f64,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    compute: f64,
    sums: f64,
    /// Numbers that the busiest worker sends.
    sent: usize,
}

/// When each worker has all messages of a round that it begins at `begin`; `numbers(from, to)` is
/// the length of a message.
fn round(net: Net, begin: &[f64], numbers: impl Fn(usize, usize) -> usize) -> Vec<f64> {
    let n = begin.len();
    let take = |numbers: usize| net.overhead + (numbers * SIZE) as f64 / net.bandwidth;
    let (mut sender, mut receiver) = (begin.to_vec(), begin.to_vec());
    // The k-th message of all workers is under way together.
    for k in 1..n {
        for (from, free) in sender.iter_mut().enumerate() {
            let to = (from + k) % n;
            let time = take(numbers(from, to));
            *free += time;
            // Its last byte leaves then; the receiver takes bytes as they come, if its link is
            // free.
            receiver[to] = (receiver[to] + time).max(*free + net.latency);
        }
    }
    (0..n).map(|w| sender[w].max(receiver[w])).collect()
}

fn step(net: Net, runs: Runs, parameters: usize, compute: f64) -> Cost {
    let w = runs.workers();
    let begin: Vec<f64> = (0..w).map(|worker| compute * runs.of(worker).len() as f64).collect();
    let own = |worker: usize| part(parameters, w, worker).len();
    let partial: Vec<usize> = (0..w).map(|worker| runs.nodes(worker).len()).collect();
    let scattered = round(net, &begin, |from, to| partial[from] * own(to));
    let done = round(net, &scattered, |from, _| own(from));
    let slowest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let sent = |worker: usize| partial[worker] * (parameters - own(worker)) + (w - 1) * own(worker);
    let compute = slowest(&begin);
    Cost { compute, sums: slowest(&done) - compute, sent: (0..w).map(sent).max().unwrap_or(0) }
}

/// Prints a row for each number of workers.
pub fn run(args: &Schedule, out: &mut dyn Write) -> Result<Verdict> {
    let net =
        Net { latency: args.latency * 1e-6, overhead: args.overhead * 1e-6, bandwidth: args.bandwidth * 1e9 };
    writeln!(
        out,
        "a message takes its sender's and its receiver's link {} us + bytes / {} GB/s, and is {} us on its way;\n\
         {} parameters of f32, {} gradient shards of {} ms each; sums begin when a worker's shards are done\n",
        args.overhead, args.bandwidth, args.latency, args.parameters, args.shards, args.compute
    )?;
    writeln!(out, "| workers | compute, ms | sums, ms | numbers sent / parameters | speedup | efficiency |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    let cost = |workers| -> Result<Cost> {
        Ok(step(net, Runs::new(args.shards, workers)?, args.parameters, args.compute * 1e-3))
    };
    let alone = cost(1)?.compute;
    let mut workers = 1;
    while workers <= args.shards {
        let Cost { compute, sums, sent } = cost(workers)?;
        let speedup = alone / (compute + sums);
        writeln!(
            out,
            "| {workers} | {:.3} | {:.3} | {:.3} | {speedup:.2} | {:.0} % |",
            compute * 1e3,
            sums * 1e3,
            sent as f64 / args.parameters as f64,
            100.0 * speedup / workers as f64
        )?;
        workers *= 2;
    }
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(latency: f64, overhead: f64) -> Net {
        Net { latency, overhead, bandwidth: 4e6 }
    }

    #[test]
    fn links_are_full_and_latency_counts_twice() {
        // 1000 numbers a millisecond: two workers send half of 2000 in each round.
        let two = step(net(0.0, 0.0), Runs::new(2, 2).unwrap(), 2000, 1.0);
        assert_eq!((two.compute, two.sent), (1.0, 2000));
        assert!((two.sums - 2e-3).abs() < 1e-12, "{two:?}");
        let late = step(net(0.5, 0.0), Runs::new(2, 2).unwrap(), 2000, 1.0);
        assert!((late.sums - 1.002).abs() < 1e-12, "{late:?}");
        let busy = step(net(0.0, 0.25), Runs::new(4, 4).unwrap(), 4000, 0.0);
        assert!((busy.sums - 6.0 * 0.251).abs() < 1e-12, "{busy:?}");
    }

    #[test]
    fn powers_of_two_send_as_little_as_any_sum_for_all() {
        for w in [1, 2, 4, 64] {
            let sent = step(net(0.0, 0.0), Runs::new(64, w).unwrap(), 6400, 0.0).sent;
            assert_eq!(sent, 2 * 6400 * (w - 1) / w);
        }
        assert!(step(net(0.0, 0.0), Runs::new(64, 3).unwrap(), 6400, 0.0).sent > 2 * 6400 * 2 / 3);
    }
}
