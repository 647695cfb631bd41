//! Adapters of data sets, and batches of samples.

use elinvar_core::{DType, Error, ErrorKind, HostTensor, Result, Shape};
use elinvar_nn::data::{Collate, Dataset, Draw, Loader, Pad, Padded, Pairs, Stack, TensorDataset, Upload};
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::Arc;

/// Sample i is i, for i below n.
#[derive(Clone, Debug)]
struct Numbers(usize);

impl Dataset for Numbers {
    type Item = i64;
    fn len(&self) -> usize {
        self.0
    }
    fn get(&self, i: usize) -> Result<i64> {
        if i < self.0 { Ok(i as i64) } else { Err(Error::argument(format!("there is no {i}"))) }
    }
}

fn all<D: Dataset>(d: &D) -> Vec<D::Item> {
    (0..d.len()).map(|i| d.get(i).unwrap()).collect()
}

fn host<T: elinvar_core::Element>(v: Vec<T>, dims: &[usize]) -> HostTensor {
    HostTensor::from_vec(v, Shape::new(dims).unwrap()).unwrap()
}

#[test]
fn parts_maps_and_rows_of_data_sets() {
    let part = Numbers(5).subset(vec![4, 0, 4]).unwrap();
    assert_eq!((all(&part), part.indices()), (vec![4, 0, 4], &[4, 0, 4][..]));
    assert_eq!(part.get(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let e = Numbers(5).subset(vec![1, 5]).unwrap_err();
    assert_eq!(e.message(), "subset: data: there is no sample 5, only 5 of them");
    let squares = Numbers(4).map(|i| Ok((i * i) as f32));
    assert_eq!(all(&squares), [0.0, 1.0, 4.0, 9.0]);
    let both = Numbers(2).concat(Numbers(3).map(|i| Ok(10 + i)));
    assert_eq!(all(&both), [0, 1, 10, 11, 12]);
    assert_eq!(both.get(5).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Empty data sets.
    assert!(Numbers(0).is_empty() && Numbers(3).subset(vec![]).unwrap().is_empty());
}

#[test]
fn a_split_has_every_sample_once_and_is_the_same_everywhere() {
    let parts = Numbers(10).split(&[0.6, 0.2, 0.2], 1).unwrap();
    // Pinned: another split would make results of different versions incomparable.
    assert_eq!(parts.iter().map(all).collect::<Vec<_>>(), SPLIT);
    let sizes = |n, fractions: &[f64]| -> Vec<usize> {
        Numbers(n).split(fractions, 0).unwrap().iter().map(Dataset::len).collect()
    };
    assert_eq!(sizes(101, &[0.8, 0.2]), [81, 20]);
    // Ten times 0.1 is not exactly 1, and no sample is lost.
    assert_eq!(sizes(1003, &[0.1; 10]).iter().sum::<usize>(), 1003);
    for fractions in
        [&[0.8, 0.3][..], &[0.5], &[], &[1.2, -0.2], &[f64::NAN, 0.5], &[1.0, 0.0], &[0.99, 0.01]]
    {
        let e = Numbers(10).split(fractions, 0).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{fractions:?}: {e}");
    }
}
const SPLIT: [&[i64]; 3] = [&[9, 2, 3, 4, 7, 0], &[8, 6], &[5, 1]];

#[test]
fn folds_test_every_sample_once() {
    let folds = Numbers(11).k_fold(3, 5).unwrap();
    assert_eq!(folds.iter().map(|(l, t)| (l.len(), t.len())).collect::<Vec<_>>(), [(7, 4), (7, 4), (8, 3)]);
    let mut tested: Vec<i64> = folds.iter().flat_map(|(_, t)| all(t)).collect();
    tested.sort_unstable();
    assert!(tested.into_iter().eq(0..11));
    for (learn, test) in &folds {
        assert!(all(test).iter().all(|i| !all(learn).contains(i)));
    }
    for k in [0, 1, 12] {
        assert_eq!(Numbers(11).k_fold(k, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn samples_are_stacked_as_rows_are_copied() {
    let x = host((0..24).map(|i| i as f32).collect(), &[4, 3, 2]);
    let y = host(vec![5i64, 6, 7, 8], &[4]);
    let pairs = Pairs::new(x.clone(), y.clone()).unwrap();
    assert_eq!(pairs.get(2).unwrap().0, host(vec![12.0f32, 13.0, 14.0, 15.0, 16.0, 17.0], &[3, 2]));
    assert_eq!(pairs.get(2).unwrap().1, host(vec![7i64], &[]));
    let which = [3, 0, 3];
    let short = pairs.stacked(&which).unwrap().unwrap();
    let long = Stack.collate(which.iter().map(|i| pairs.get(*i).unwrap()).collect()).unwrap();
    assert_eq!(short, long);
    let several = TensorDataset::new(vec![x, y]).unwrap();
    assert_eq!(several.stacked(&which).unwrap().unwrap(), [short.0, short.1]);
    // A subset of a subset is stacked directly, too.
    let part = pairs.subset(vec![1, 2, 3]).unwrap().subset(vec![2, 0]).unwrap();
    assert_eq!(part.stacked(&[0, 1]).unwrap().unwrap().1, host(vec![8i64, 6], &[2]));
    assert_eq!(part.stacked(&[2]).unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    for wrong in
        [vec![], vec![host(vec![1.0f32], &[])], vec![host(vec![1.0f32], &[1]), host(vec![1u8; 2], &[2])]]
    {
        assert!(TensorDataset::new(wrong).is_err());
    }
}

#[test]
fn samples_that_do_not_stack_are_errors() {
    let one = |dims: &[usize]| host(vec![0.0f32; dims.iter().product()], dims);
    let rows: [(Result<HostTensor>, ErrorKind, &str); 3] = [
        (
            Stack.collate(vec![one(&[2]), one(&[3])]),
            ErrorKind::ShapeMismatch,
            "stack: sample 0 of the batch is [2], sample 1 is [3]; equal shapes would fit, `Pad` takes sequences of \
             different lengths",
        ),
        (
            Stack.collate(vec![one(&[2]), host(vec![0i64, 0], &[2])]),
            ErrorKind::DTypeMismatch,
            "stack: sample 0 of the batch is of f32, sample 1 of i64; one type would fit",
        ),
        (Stack.collate(Vec::<HostTensor>::new()), ErrorKind::InvalidArgument, "stack: a batch of no samples"),
    ];
    for (result, kind, sentence) in rows {
        let e = result.unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, sentence));
    }
    assert!(Stack.collate(vec![vec![1.0f32], vec![]]).is_err());
    let parts = Stack.collate(vec![vec![1.0f32, 2.0], vec![3.0, 4.0]]).unwrap();
    assert_eq!(parts, [host(vec![1.0f32, 3.0], &[2]), host(vec![2.0f32, 4.0], &[2])]);
    let (a, b, c) = Stack.collate(vec![(true, 1u8, "x".to_owned()), (false, 2, "y".to_owned())]).unwrap();
    assert_eq!(
        (a, b, c),
        (host(vec![true, false], &[2]), host(vec![1u8, 2], &[2]), vec!["x".into(), "y".into()])
    );
}

#[test]
fn sequences_are_padded() {
    let x = |v: &[f32]| host(v.to_vec(), &[v.len() / 2, 2]);
    let (p, y) = Pad::new(-1.0)
        .multiple_of(4)
        .collate(vec![(x(&[1.0, 2.0]), 7i64), (x(&[]), 8), (x(&[3.0, 4.0, 5.0, 6.0]), 9)])
        .unwrap();
    assert_eq!(p.x.shape().dims(), [3, 4, 2]);
    let n = -1.0;
    let want = [[1.0, 2.0, n, n, n, n, n, n], [n; 8], [3.0, 4.0, 5.0, 6.0, n, n, n, n]];
    assert_eq!(p.x.as_slice::<f32>().unwrap(), want.concat());
    let (t, f) = (true, false);
    assert_eq!(p.mask, host(vec![t, f, f, f, f, f, f, f, t, t, f, f], &[3, 4]));
    assert_eq!((p.lengths.clone(), y), (host(vec![1i64, 0, 2], &[3]), host(vec![7i64, 8, 9], &[3])));
    let on = p.clone().upload::<Reference>(&ReferenceDevice).unwrap();
    assert_eq!((on.x.dims(), on.mask.dtype(), on.lengths.dims()), (&[3, 4, 2][..], DType::Bool, &[3][..]));
    assert_eq!(p.bytes(), 3 * 4 * 2 * 4 + 12 + 24);

    let ids = |v: &[i64]| host(v.to_vec(), &[v.len()]);
    let wrong: [(Result<Padded<HostTensor>>, ErrorKind); 5] = [
        (Pad::new(0).collate(Vec::<HostTensor>::new()), ErrorKind::InvalidArgument),
        (Pad::new(0).collate(vec![host(vec![1.0f32], &[])]), ErrorKind::ShapeMismatch),
        (Pad::new(0).collate(vec![x(&[1.0, 2.0]), host(vec![1.0f32; 3], &[1, 3])]), ErrorKind::ShapeMismatch),
        (Pad::new(0).collate(vec![ids(&[1]), host(vec![1u8], &[1])]), ErrorKind::DTypeMismatch),
        (Pad::new(0.5).collate(vec![ids(&[1]), ids(&[1, 2])]), ErrorKind::DTypeMismatch),
    ];
    for (result, kind) in wrong {
        assert_eq!(result.unwrap_err().kind(), kind);
    }
    assert_eq!(
        Pad::new(0).multiple_of(usize::MAX).collate(vec![ids(&[1, 2])]).unwrap_err().kind(),
        ErrorKind::OutOfMemory
    );
}

#[test]
fn a_closure_makes_batches() {
    let sum = |v: Vec<i64>| Ok(host(vec![v.iter().sum::<i64>()], &[1]));
    let loader = Loader::new(Arc::new(Numbers(5)), 2).unwrap().collate(sum);
    let sums: Vec<_> = loader.host_epoch(0, 0).map(|b| b.unwrap().data).collect();
    assert_eq!(sums, [1i64, 5, 4].map(|s| host(vec![s], &[1])));
}

#[test]
fn samples_are_drawn_from_all() {
    let load = |n: usize, count| Loader::new(Arc::new(Numbers(n)), 4).unwrap().draw(count, 3);
    let l = load(3, 9000).unwrap();
    assert_eq!((l.batches(), l.order(0).unwrap().len()), (2250, 9000));
    for i in 0..3 {
        // 3,000 are expected; the standard deviation is 45.
        let count = l.order(0).unwrap().iter().filter(|s| **s == i).count();
        assert!(count.abs_diff(3000) < 225, "{count} of {i}");
    }
    assert_ne!(l.order(0).unwrap(), l.order(1).unwrap());
    assert_eq!(l.order(1).unwrap(), l.clone().order(1).unwrap());
    // Needs no memory per sample.
    assert!(load(usize::MAX, 3).unwrap().order(0).unwrap().iter().all(|i| *i > 0));
    // Pinned: this is the order on every machine.
    assert_eq!(load(8, 8).unwrap().order(0).unwrap(), DRAWN);
    assert_eq!(load(0, 0).unwrap().batches(), 0);
    let e = load(0, 1).unwrap_err();
    assert_eq!(e.message(), "loader: 1 samples are to be drawn, and there are none");
}
const DRAWN: [usize; 8] = [3, 5, 1, 6, 2, 3, 0, 1];

#[test]
fn samples_are_drawn_by_weight() {
    let load = |weights: Vec<f64>, count, draw| {
        Loader::new(Arc::new(Numbers(weights.len())), 4).unwrap().weighted(weights, count, draw, 3)
    };
    let l = load(vec![1.0, 0.0, 3.0], 8000, Draw::Again).unwrap();
    assert_eq!((l.batches(), l.order(0).unwrap().len()), (2000, 8000));
    let count = |i| l.order(0).unwrap().iter().filter(|s| **s == i).count();
    // 2,000, 0 and 6,000 are expected; the standard deviation is 39.
    assert!(count(0).abs_diff(2000) < 200 && count(1) == 0, "{} {}", count(0), count(1));
    assert_ne!(l.order(0).unwrap(), l.order(1).unwrap());
    assert_eq!(l.order(1).unwrap(), l.clone().order(1).unwrap());

    let once = load(vec![1.0, 0.0, 3.0, 1e-300, 1e300], 4, Draw::Once).unwrap();
    let mut firsts = vec![];
    for epoch in 0..50 {
        let order = once.order(epoch).unwrap();
        // The heaviest comes first and the lightest last, with near certainty.
        assert_eq!((order[0], order[3]), (4, 3), "{order:?}");
        firsts.push(order[1]);
    }
    // The sample of weight 3 is expected 37.5 times; the standard deviation is 3.
    let heavy = firsts.iter().filter(|i| **i == 2).count();
    assert!((25..50).contains(&heavy) && firsts.contains(&0), "{heavy}");
    // Pinned: this is the order on every machine.
    assert_eq!(load((1..=8).map(f64::from).collect(), 8, Draw::Once).unwrap().order(0).unwrap(), ONCE);
    assert_eq!(load((1..=8).map(f64::from).collect(), 8, Draw::Again).unwrap().order(0).unwrap(), AGAIN);

    for (weights, count, draw) in [
        (vec![1.0, -1.0], 1, Draw::Again),
        (vec![1.0, f64::NAN], 1, Draw::Again),
        (vec![1.0, f64::INFINITY], 1, Draw::Once),
        (vec![f64::MAX; 2], 1, Draw::Again),
        (vec![0.0, 0.0], 1, Draw::Again),
        (vec![1.0, 0.0], 2, Draw::Once),
    ] {
        let e = load(weights.clone(), count, draw).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{weights:?} {count}: {e}");
    }
    let few = Loader::new(Arc::new(Numbers(3)), 1).unwrap().weighted(vec![1.0], 1, Draw::Once, 0);
    assert_eq!(few.unwrap_err().message(), "loader: 1 weights for 3 samples; one for each would fit");
}
const ONCE: [usize; 8] = [6, 7, 2, 4, 5, 0, 3, 1];
const AGAIN: [usize; 8] = [4, 6, 2, 7, 4, 5, 1, 2];
