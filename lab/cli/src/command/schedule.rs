//! `elinvar-lab schedule`: how long a training step takes on many workers, by a model of the
//! messages that a step sends.
//!
//! The model: a worker has one link each way. A message occupies the sender's link for `overhead +
//! bytes / bandwidth`, is on its way for `latency`, and then occupies the receiver's link as long.
//! Links take messages in the order in which they come. The messages are those of a step: each
//! worker sends each other one its part of the partial sums, right neighbour first, and when it has
//! all of its own part, the sum of it in the same order. Computing is `compute` times the shards of
//! a worker. Gradients are summed bucket after bucket; those of the last shard become final evenly
//! over its backward pass, which is two thirds of its time.
//!
//! How it can be wrong: switches that are shared, workers of different speeds, layers whose size
//! and time do not go together, memory and cores that sums take from the pass. None of them is in
//! the model.

use crate::args::Schedule;
use elinvar::Result;
use elinvar::distributed::Runs;
use elinvar::distributed::tree::part;
use elinvar::nn::train::FIRST_BUCKET_BYTES;
use elinvar_cli_support::Verdict;
use std::io::Write;

/// Bytes of an element, f32.
const SIZE: usize = 4;
/// The part of a shard's time that is its backward pass: two products for each of the forward pass.
const BACKWARD: f64 = 2.0 / 3.0;

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
    /// Of sums, what comes behind computing.
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

/// The numbers of each bucket.
fn buckets(parameters: usize, bytes: usize) -> Vec<usize> {
    if bytes == 0 {
        return vec![parameters];
    }
    let most = |bytes: usize| (bytes / SIZE).max(1);
    let mut all = vec![most(bytes.min(FIRST_BUCKET_BYTES)).min(parameters)];
    let mut left = parameters - all[0];
    while left > 0 {
        all.push(most(bytes).min(left));
        left -= all[all.len() - 1];
    }
    all
}

fn step(net: Net, runs: Runs, parameters: usize, compute: f64, bucket: usize) -> Cost {
    let w = runs.workers();
    let end: Vec<f64> = (0..w).map(|worker| compute * runs.of(worker).len() as f64).collect();
    let partial: Vec<usize> = (0..w).map(|worker| runs.nodes(worker).len()).collect();
    let (mut done, mut sent, mut ready) = (vec![0.0; w], vec![0; w], 0);
    for numbers in buckets(parameters, bucket) {
        ready += numbers;
        let before_end = compute * BACKWARD * (parameters - ready) as f64 / parameters as f64;
        let begin: Vec<f64> =
            end.iter().zip(&done).map(|(end, done)| (end - before_end).max(*done)).collect();
        let own = |worker: usize| part(numbers, w, worker).len();
        let scattered = round(net, &begin, |from, to| partial[from] * own(to));
        done = round(net, &scattered, |from, _| own(from));
        for (worker, sent) in sent.iter_mut().enumerate() {
            *sent += partial[worker] * (numbers - own(worker)) + (w - 1) * own(worker);
        }
    }
    let slowest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let compute = slowest(&end);
    Cost { compute, sums: slowest(&done) - compute, sent: sent.into_iter().max().unwrap_or(0) }
}

/// Prints a row for each number of workers.
pub fn run(args: &Schedule, out: &mut dyn Write) -> Result<Verdict> {
    let net =
        Net { latency: args.latency * 1e-6, overhead: args.overhead * 1e-6, bandwidth: args.bandwidth * 1e9 };
    writeln!(
        out,
        "a message takes its sender's and its receiver's link {} us + bytes / {} GB/s, and is {} us on its way;\n\
         {} parameters of f32, {} gradient shards of {} ms each; gradients go in buckets of {} bytes,\n\
         as they become final over the last two thirds of a worker's last shard (0: when all are done)\n",
        args.overhead,
        args.bandwidth,
        args.latency,
        args.parameters,
        args.shards,
        args.compute,
        args.bucket_bytes
    )?;
    writeln!(
        out,
        "| workers | compute, ms | sums behind it, ms | numbers sent / parameters | speedup | efficiency |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    let cost = |workers| -> Result<Cost> {
        let runs = Runs::new(args.shards, workers)?;
        Ok(step(net, runs, args.parameters, args.compute * 1e-3, args.bucket_bytes))
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
        let two = step(net(0.0, 0.0), Runs::new(2, 2).unwrap(), 2000, 1.0, 0);
        assert_eq!((two.compute, two.sent), (1.0, 2000));
        assert!((two.sums - 2e-3).abs() < 1e-12, "{two:?}");
        let late = step(net(0.5, 0.0), Runs::new(2, 2).unwrap(), 2000, 1.0, 0);
        assert!((late.sums - 1.002).abs() < 1e-12, "{late:?}");
        let busy = step(net(0.0, 0.25), Runs::new(4, 4).unwrap(), 4000, 0.0, 0);
        assert!((busy.sums - 6.0 * 0.251).abs() < 1e-12, "{busy:?}");
    }

    #[test]
    fn powers_of_two_send_as_little_as_any_sum_for_all() {
        for w in [1, 2, 4, 64] {
            let sent = step(net(0.0, 0.0), Runs::new(64, w).unwrap(), 6400, 0.0, 0).sent;
            assert_eq!(sent, 2 * 6400 * (w - 1) / w);
        }
        assert!(step(net(0.0, 0.0), Runs::new(64, 3).unwrap(), 6400, 0.0, 0).sent > 2 * 6400 * 2 / 3);
    }

    #[test]
    fn buckets_are_hidden_as_far_as_there_is_computing() {
        assert_eq!(buckets(10, 0), [10]);
        assert_eq!(buckets(10, 16), [4, 4, 2]);
        assert_eq!(buckets(3, 16), [3]);
        let first = FIRST_BUCKET_BYTES / SIZE;
        assert_eq!(buckets(4 * first, 2 * FIRST_BUCKET_BYTES), [first, 2 * first, first]);
        let two = |compute: f64, bucket: usize| {
            step(net(0.0, 0.0), Runs::new(2, 2).unwrap(), 2000, compute, bucket)
        };
        // The second half is final at the end, and takes a millisecond; the first one is gone then.
        let half = two(3.0, 4000);
        assert!((half.sums - 1e-3).abs() < 1e-12 && half.sent == 2000, "{half:?}");
        // Nothing to hide behind.
        assert!((two(0.0, 4000).sums - 2e-3).abs() < 1e-12);
        // The first half is final a third of a millisecond before the end.
        assert!((two(1e-3, 4000).sums - (2e-3 - 1e-3 / 3.0)).abs() < 1e-12);
    }
}
