//! Prefetching: the same batches, within the limits, and threads that stop.

use elinvar_core::HostTensor;
use elinvar_core::{Error, Result};
use elinvar_nn::data::{Dataset, HostBatch, Loader, Prefetch};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sample i is i; some fail, some panic, some are slow.
#[derive(Default)]
struct Odd {
    n: usize,
    fails: Vec<usize>,
    panics: Vec<usize>,
    slow: Option<Duration>,
    asked: AtomicUsize,
    most: Mutex<usize>,
}

impl Dataset for Odd {
    type Item = i64;
    fn len(&self) -> usize {
        self.n
    }
    fn get(&self, i: usize) -> Result<i64> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        *self.most.lock().unwrap() = i;
        if let Some(time) = self.slow {
            std::thread::sleep(time);
        }
        if self.fails.contains(&i) {
            return Err(Error::format(format!("sample {i} is torn")));
        }
        assert!(!self.panics.contains(&i), "sample {i} is cursed");
        Ok(i as i64)
    }
}

fn told(batch: Result<HostBatch<HostTensor>>) -> std::result::Result<Vec<i64>, String> {
    batch.map(|b| b.data.as_slice::<i64>().unwrap().to_vec()).map_err(|e| e.message().to_owned())
}

#[test]
fn batches_are_the_same_with_any_number_of_threads() {
    let data = Arc::new(Odd { n: 103, fails: vec![17, 50], panics: vec![30], ..Odd::default() });
    let plain = Loader::new(data, 4).unwrap().shuffle(9);
    let want: Vec<_> = plain.host_epoch(2, 0).map(told).collect();
    assert_eq!((want.len(), want.iter().filter(|b| b.is_err()).count()), (26, 3));
    assert!(want.contains(&Err("sample 17 is torn".into())));
    assert!(want.contains(&Err("data: reading a sample panicked: sample 30 is cursed".into())));
    for (workers, batches, bytes) in [
        (1, 1, usize::MAX),
        (2, 3, usize::MAX),
        (8, 64, usize::MAX),
        (3, 8, 0),
        (3, 8, 70),
        (200, 2, 1 << 20),
    ] {
        let limits = Prefetch::new(workers).batches(batches).bytes(bytes);
        let ahead = plain.clone().prefetch(limits);
        assert_eq!(ahead.host_epoch(2, 0).map(told).collect::<Vec<_>>(), want, "{limits:?}");
        // Starting in the middle, and beyond the end.
        assert_eq!(ahead.host_epoch(2, 20).map(told).collect::<Vec<_>>(), want[20..], "{limits:?}");
        assert_eq!(ahead.host_epoch(2, 26).count() + ahead.host_epoch(2, 99).count(), 0);
    }
}

#[test]
fn prefetching_respects_its_limits() {
    // Batches of 2 numbers of 8 bytes.
    for (workers, batches, bytes, most) in [
        (1, 1, usize::MAX, 1),
        (4, 3, usize::MAX, 3),
        (4, 100, 48, 3),
        (4, 100, 47, 2),
        // The requested batch is made even if it exceeds the limit.
        (4, 100, 0, 1),
    ] {
        let data = Arc::new(Odd { n: 100, ..Odd::default() });
        let limits = Prefetch::new(workers).batches(batches).bytes(bytes);
        let loader = Loader::new(data.clone(), 2).unwrap().prefetch(limits);
        let mut epoch = loader.host_epoch(0, 0);
        for taken in 0..5 {
            // Long enough to detect threads that exceed the limits; a shorter time could only miss
            // a fault.
            std::thread::sleep(Duration::from_millis(20));
            let asked = data.asked.load(Ordering::SeqCst);
            assert!(asked <= 2 * (taken + most), "{limits:?}: {asked} samples with {taken} batches taken");
            assert!(epoch.next().unwrap().is_ok());
        }
        // The iteration completes.
        assert_eq!(epoch.count(), 45);
    }
}

#[test]
fn an_iterator_that_is_dropped_ends_its_threads() {
    // Batches of a thousand slow samples: workers must check the flag between samples.
    let data = Arc::new(Odd { n: 10_000, slow: Some(Duration::from_millis(5)), ..Odd::default() });
    let loader = Loader::new(data.clone(), 1000).unwrap().prefetch(Prefetch::new(4));
    let epoch = loader.host_epoch(0, 0);
    while data.asked.load(Ordering::SeqCst) < 4 {
        std::thread::yield_now();
    }
    let start = Instant::now();
    drop(epoch);
    // Without the check each thread would need five seconds.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    drop(loader);
    // No thread still owns the data.
    assert_eq!(Arc::strong_count(&data), 1);
    let asked = data.asked.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(data.asked.load(Ordering::SeqCst), asked);

    // Dropped while threads wait for capacity, and before anything was made.
    let quick =
        Loader::new(Arc::new(Odd { n: 100, ..Odd::default() }), 1).unwrap().prefetch(Prefetch::new(3));
    let mut epoch = quick.host_epoch(0, 0);
    assert!(epoch.next().is_some());
    std::thread::sleep(Duration::from_millis(10));
    drop(epoch);
    drop(quick.host_epoch(1, 0));
}

#[test]
fn random_changes_belong_to_seed_epoch_and_sample() {
    let data = Arc::new(Odd { n: 20, ..Odd::default() });
    let loader = |workers| {
        let l = Loader::new(data.clone(), 3).unwrap().shuffle(1).prefetch(Prefetch::new(workers));
        l.augment(7, |i, random| Ok(i * 1000 + random.below(1000) as i64))
    };
    let epoch = |workers, epoch, start| -> Vec<i64> {
        loader(workers).host_epoch(epoch, start).flat_map(|b| told(b).unwrap()).collect()
    };
    let first = epoch(0, 0, 0);
    assert_eq!(epoch(3, 0, 0), first);
    assert_eq!(epoch(2, 0, 4), first[12..]);
    let sorted = |mut v: Vec<i64>| {
        v.sort_unstable();
        v
    };
    let (a, b) = (sorted(first), sorted(epoch(0, 1, 0)));
    assert_ne!(a, b, "another epoch, other numbers");
    // The random numbers belong to the sample, not to its position.
    let unshuffled =
        Loader::new(data.clone(), 5).unwrap().augment(7, |i, r| Ok(i * 1000 + r.below(1000) as i64));
    assert_eq!(unshuffled.host_epoch(0, 0).flat_map(|b| told(b).unwrap()).collect::<Vec<_>>(), a);
}
