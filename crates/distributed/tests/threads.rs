//! Groups of threads: bits that do not depend on the number of workers, and calls that do not fit.

use elinvar_core::{ErrorKind, Result};
use elinvar_distributed::{Group, Runs, Shares, TreeSum};
use std::thread;
use std::time::Duration;

/// What every worker returns, by rank.
fn on<T: Send>(workers: usize, work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    thread::scope(|s| {
        let work = &work;
        let all: Vec<_> = Group::threads(workers).into_iter().map(|g| s.spawn(move || work(g))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// The numbers of a shard, of very different sizes, so that each order of sums has other bits.
fn shard(i: usize, n: usize) -> Vec<f32> {
    let mut state = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let number =
        |bits: u64| (bits as u32 as f32 / 2f32.powi(32) - 0.5) * 2f32.powi((bits >> 40) as i32 % 24 - 12);
    (0..n).map(|_| number(next())).collect()
}

fn add(a: Vec<f32>, b: Vec<f32>) -> Result<Vec<f32>> {
    Ok(a.iter().zip(&b).map(|(a, b)| a + b).collect())
}

fn sums(runs: Runs, rank: usize, n: usize) -> TreeSum<Vec<f32>> {
    let mut sums = TreeSum::new(runs.of(rank).start);
    runs.of(rank).for_each(|i| sums.push(shard(i, n), add).unwrap());
    sums
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn sums_of_shards_do_not_depend_on_the_number_of_workers() {
    const SHARDS: usize = 16;
    // In one round and in two, parts that differ in length, and nothing.
    for n in [0, 1, 7, 1000, 8192, 8193, 20_011] {
        let whole = sums(Runs::new(SHARDS, 1).unwrap(), 0, n).root(add).unwrap().unwrap();
        let in_turn = (1..SHARDS).fold(shard(0, n), |a, i| add(a, shard(i, n)).unwrap());
        assert!(n < 1000 || bits(&whole) != bits(&in_turn), "the order must matter to this test");
        for workers in 1..=SHARDS {
            let runs = Runs::new(SHARDS, workers).unwrap();
            let got = on(workers, |g| {
                let y = g.all_reduce_shards(runs, sums(runs, g.rank(), n), n).unwrap();
                let part = g.reduce_scatter_shards(runs, sums(runs, g.rank(), n), n).unwrap();
                assert_eq!(bits(&part), bits(&y[g.part(n, g.rank())]));
                assert_eq!(bits(&g.all_gather_parts(&part, n).unwrap()), bits(&y));
                // The last worker has half of all, the first one nothing.
                let lengths = (0..workers).map(|w| match w {
                    0 if workers > 1 => 0,
                    w if w + 1 == workers => n - n / 2 * usize::from(workers > 2),
                    w => Shares::balanced(&vec![1; n / 2], workers - 2).of(w - 1).len(),
                });
                let shares = Shares::of_lengths(lengths);
                let share = g.reduce_scatter_shares(runs, sums(runs, g.rank(), n), &shares).unwrap();
                assert_eq!(bits(&share), bits(&y[shares.of(g.rank())]));
                assert_eq!(bits(&g.all_gather_shares(&share, &shares).unwrap()), bits(&y));
                bits(&y)
            });
            assert!(got.iter().all(|y| *y == bits(&whole)), "{n} numbers, {workers} workers");
        }
    }
}

#[test]
fn what_workers_have_goes_to_all() {
    for workers in 1..=7 {
        on(workers, |g| {
            let me = g.rank();
            assert_eq!((g.size(), g.local_rank()), (workers, me));
            g.barrier().unwrap();
            let all = g.all_gather_slice(&[me as i64, -1]).unwrap();
            assert_eq!(all, (0..workers as i64).flat_map(|r| [r, -1]).collect::<Vec<_>>());
            let own = vec![me as u8; 3 * me];
            let got = g.gather_bytes(own, workers - 1).unwrap();
            assert_eq!(got.is_some(), me + 1 == workers);
            for (w, bytes) in got.into_iter().flatten().enumerate() {
                assert_eq!(bytes, vec![w as u8; 3 * w]);
            }
            for root in 0..workers {
                let mut x = [me as f64, 0.5];
                g.broadcast_slice(&mut x, root).unwrap();
                assert_eq!(x, [root as f64, 0.5]);
            }
            let n = (workers * (workers - 1) / 2) as i32;
            assert_eq!(g.all_reduce_slice(&[me as i32, 1]).unwrap(), [n, workers as i32]);
            assert_eq!(
                g.reduce_scatter_slice(&[1.0f32; 10]).unwrap(),
                vec![workers as f32; g.part(10, me).len()]
            );
            g.agree("data", b"the same").unwrap();
        });
    }
}

/// A sum of n numbers costs each of W = 2^k workers 2 n (W - 1) / W numbers.
#[test]
fn as_few_bytes_as_any_sum_for_all() {
    let n = 1 << 14;
    for workers in [2, 4, 8] {
        for sent in on(workers, |g| {
            g.all_reduce_slice(&vec![1.0f32; n]).unwrap();
            g.traffic()
        }) {
            assert_eq!(sent.bytes, (2 * 4 * n * (workers - 1) / workers) as u64);
            assert_eq!(sent.messages, 2 * (workers as u64 - 1));
        }
    }
}

#[test]
fn calls_that_do_not_fit_are_told_on_both_sides() {
    let got = on(2, |g| {
        let g = g.time_limit(Duration::from_secs(5));
        let e = match g.rank() {
            0 => g.all_reduce_slice(&[1.0f32]).unwrap_err(),
            _ => g.all_reduce_slice(&[1.0f64]).unwrap_err(),
        };
        // It is of no more use.
        assert_eq!(g.barrier().unwrap_err().message(), e.message());
        e.to_string()
    });
    assert!(got.iter().any(|e| e.contains("all_reduce of 1 f64 from 2 shards (its call 0)")), "{got:?}");
    let told = on(2, |g| {
        let shares = Shares::of_lengths([1 + g.rank(), 1 - g.rank()]);
        let mine = vec![1.0f32; shares.of(g.rank()).len()];
        g.time_limit(Duration::from_secs(5)).all_gather_shares(&mine, &shares).err().map(|e| e.to_string())
    });
    assert!(told.iter().flatten().any(|e| e.contains("cut elsewhere")), "{told:?}");
    let rows: [fn(&Group) -> Result<()>; 3] = [
        |g| g.all_gather_slice(&[0u8; 3][..2 + g.rank()]).map(drop),
        |g| if g.rank() == 0 { g.barrier() } else { g.broadcast_slice(&mut [1i32], 0) },
        |g| g.barrier().and_then(|()| if g.rank() == 0 { g.barrier() } else { g.agree("x", b"") }),
    ];
    for (i, row) in rows.into_iter().enumerate() {
        let got = on(2, |g| row(&g.time_limit(Duration::from_secs(5))).err());
        let told = got.iter().flatten().filter(|e| e.message().contains("must make the same calls")).count();
        assert!(told >= 1 && got.iter().all(Option::is_some), "row {i}: {got:?}");
    }
}

#[test]
fn what_must_be_the_same_is_compared() {
    let got = on(3, |g| g.agree("data set", if g.rank() == 2 { b"b" } else { b"a" }).unwrap_err());
    for e in got {
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().contains("worker 2 has another data set than worker 0"), "{e}");
    }
}

#[test]
fn a_worker_that_leaves_or_does_not_come_is_an_error_of_the_others() {
    let got = on(3, |g| (g.rank() != 1).then(|| g.all_reduce_slice(&[1.0f32]).unwrap_err()));
    assert!(got.iter().flatten().all(|e| e.message().contains("has left")), "{got:?}");
    let got = on(2, |g| {
        let g = g.time_limit(Duration::from_millis(50));
        if g.rank() == 1 {
            thread::sleep(Duration::from_millis(300));
        }
        g.barrier().err().map(|e| e.to_string())
    });
    assert!(got[0].as_ref().unwrap().contains("worker 1 has sent nothing within the time limit"), "{got:?}");
}

#[test]
fn wrong_arguments() {
    let g = Group::alone();
    assert!(g.broadcast_slice(&mut [0u8], 1).unwrap_err().message().contains("broadcast of worker 1"));
    let runs = Runs::new(4, 1).unwrap();
    let other = g.all_reduce_shards(runs, sums(Runs::new(8, 1).unwrap(), 0, 3), 3).unwrap_err();
    assert!(other.message().contains("sums of other shards"), "{other}");
    assert!(g.all_gather_parts(&[1.0f32], 2).unwrap_err().message().contains("its part has 2"));
    assert_eq!(Group::alone().transport(), "none");
    assert!(g.library_sum(&mut [0.0]).unwrap_err().message().contains("no library that sums"));
    assert!(g.gather_bytes(vec![], 1).unwrap_err().message().contains("gather of worker 1"));
    let two = Shares::of_lengths([1, 1]);
    let of_two = g.all_gather_shares(&[1.0f32], &two).unwrap_err();
    assert!(of_two.message().contains("shares of 2 workers; there are 1"), "{of_two}");
    let long = g.all_gather_shares(&[1.0f32; 2], &Shares::of_lengths([1])).unwrap_err();
    assert!(long.message().contains("worker 0 has 2 elements; its share is 1"), "{long}");
    // Longer than a clock counts.
    on(2, |g| g.time_limit(Duration::MAX).barrier().unwrap());
}
