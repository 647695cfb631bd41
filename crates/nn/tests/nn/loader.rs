//! Batches: every sample once per epoch, in an order that the seed determines.

use elinvar_core::{DType, ErrorKind, HostTensor, Shape};
use elinvar_nn::loader::{Loader, Pairs};
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;

/// Sample i is [i, 10 i], its target i.
fn pairs(n: usize) -> Arc<Pairs> {
    let x = (0..n).flat_map(|i| [i as f32, 10.0 * i as f32]).collect();
    let y = (0..n as i64).collect();
    let host = |d: &[usize]| Shape::new(d).unwrap();
    Arc::new(
        Pairs::new(
            HostTensor::from_vec(x, host(&[n, 2])).unwrap(),
            HostTensor::from_vec::<i64>(y, host(&[n])).unwrap(),
        )
        .unwrap(),
    )
}

fn epoch(l: &Loader, number: u64, start: usize) -> Vec<Vec<i64>> {
    l.epoch::<Reference>(number, start, &D)
        .map(|b| {
            let b = b.unwrap();
            let y = b.y.to_vec::<i64>().unwrap();
            assert_eq!((b.x.dtype(), b.x.dims()), (DType::F32, &[y.len(), 2][..]));
            let x: Vec<f32> = y.iter().flat_map(|&i| [i as f32, 10.0 * i as f32]).collect();
            assert_eq!(b.x.to_vec::<f32>().unwrap(), x, "samples stay with their targets");
            assert_eq!(b.samples.iter().map(|&i| i as i64).collect::<Vec<_>>(), y);
            y
        })
        .collect()
}

#[test]
fn batches_come_in_their_sizes() {
    for (n, size, drop_last, want) in [
        (7, 3, false, vec![3, 3, 1]),
        (7, 3, true, vec![3, 3]),
        (6, 3, false, vec![3, 3]),
        (6, 3, true, vec![3, 3]),
        (2, 3, false, vec![2]),
        (2, 3, true, vec![]),
        (0, 3, false, vec![]),
    ] {
        let l = Loader::new(pairs(n), size).unwrap().drop_last(drop_last);
        let sizes: Vec<usize> = epoch(&l, 0, 0).iter().map(Vec::len).collect();
        assert_eq!((sizes, l.batches()), (want.clone(), want.len()), "{n} samples by {size}, {drop_last}");
    }
    let in_order = Loader::new(pairs(5), 2).unwrap();
    assert_eq!(epoch(&in_order, 3, 0), [vec![0, 1], vec![2, 3], vec![4]]);
}

#[test]
fn an_epochs_order_follows_from_seed_and_number() {
    let l = Loader::new(pairs(10), 4).unwrap().shuffle(1);
    // Pinned: this is the order on every machine.
    assert_eq!(l.order(0).unwrap(), FIRST);
    assert_eq!(epoch(&l, 0, 0).concat(), FIRST.map(|i| i as i64));
    assert_ne!(l.order(1).unwrap(), l.order(0).unwrap());
    assert_ne!(Loader::new(pairs(10), 4).unwrap().shuffle(2).order(0).unwrap(), l.order(0).unwrap());
    for number in 0..20 {
        let mut all = l.order(number).unwrap();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..10));
    }
    // Resuming in the middle.
    assert_eq!(epoch(&l, 5, 1), epoch(&l, 5, 0)[1..]);
    assert_eq!(epoch(&l, 5, 3), Vec::<Vec<i64>>::new());
}
const FIRST: [usize; 10] = [8, 5, 0, 7, 4, 1, 3, 2, 6, 9];

#[test]
fn invalid_loaders_are_rejected() {
    // More samples than there is memory for: an error, and no abort.
    let vast = Loader::new(pairs(3), 4).unwrap().draw(1 << 46, 1).unwrap();
    assert_eq!(vast.order(0).unwrap_err().kind(), ErrorKind::OutOfMemory);
    let all: Vec<_> = vast.host_epoch(0, 0).map(|b| b.unwrap_err().kind()).collect();
    assert_eq!(all, [ErrorKind::OutOfMemory]);
    assert_eq!(Loader::new(pairs(3), 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(pairs(3).batch::<Reference>(vec![0, 3], &D).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let one = |n: usize| HostTensor::from_vec(vec![0.0f32; n], Shape::new(&[n]).unwrap()).unwrap();
    let scalar = HostTensor::from_vec(vec![0.0f32], Shape::scalar()).unwrap();
    for (x, y) in [(one(2), one(3)), (scalar.clone(), one(1)), (one(1), scalar)] {
        assert_eq!(Pairs::new(x, y).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }
}
