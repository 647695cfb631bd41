//! Recurrent networks and their gradients, whose weights get packed on the way: the reference's
//! bits.

use crate::tools::{Dice, devices, in_turn};
use elinvar_core::{DType, HostTensor, Shape};
use elinvar_ops::catalogue::recurrent::{RnnOptions, RnnWeights};
use elinvar_ops::{Backend, catalogue as op};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, Tensor, backward};

/// Each net with a layer in both directions and one above it, its results and the gradients by all
/// operands.
fn all<B: Backend>(d: &B::Device, x: &[HostTensor], gates: usize) -> Vec<HostTensor> {
    let x: Vec<Tensor<B>> =
        x.iter().map(|x| Tensor::from_host(x.clone(), d).unwrap().requires_grad()).collect();
    let weights = |i: usize| RnnWeights {
        w_ih: &x[i],
        w_hh: &x[2],
        b_ih: Some(&x[3]),
        b_hh: (i == 1).then_some(&x[3]),
    };
    let weights = [weights(1), weights(1), weights(4), weights(4)];
    let o = RnnOptions { batch_first: true, bidirectional: true };
    let results = match gates {
        4 => op::lstm(&x[0], Some((&x[5], &x[6])), &weights, o).map(|(y, h, c)| vec![y, h, c]),
        3 => op::gru(&x[0], Some(&x[5]), &weights, o).map(|(y, h)| vec![y, h]),
        _ => op::rnn_tanh(&x[0], Some(&x[5]), &weights, o).map(|(y, h)| vec![y, h]),
    }
    .unwrap();
    let seeds: Vec<Tensor<B>> = results.iter().map(|y| y.sin()).collect();
    let outputs: Vec<_> = results.iter().zip(&seeds).map(|(y, g)| (y, Some(g))).collect();
    let g = backward(&outputs, Backward::default()).unwrap();
    let gradients = x.iter().filter_map(|x| g.get(x));
    results.iter().chain(gradients).map(|y| y.to_host().unwrap()).collect()
}

#[test]
fn recurrent_nets() {
    let (mut dice, on) = (Dice::new(41), devices());
    // Each instruction set meets each number of threads twice. Around the steps from which weights
    // are packed, the registers' widths, and the terms of a chunk.
    for (round, (gates, [t, n, i, h], dtype)) in [
        (4, [3, 2, 3, 5], DType::F32),
        (4, [15, 3, 4, 33], DType::F32),
        (4, [17, 9, 17, 40], DType::F32),
        (4, [5, 2, 3, 130], DType::F32),
        (4, [16, 8, 4, 18], DType::F64),
        (3, [9, 1, 4, 33], DType::F32),
        (3, [19, 13, 7, 24], DType::F32),
        (1, [16, 9, 5, 48], DType::F32),
    ]
    .into_iter()
    .enumerate()
    {
        let rows = gates * h;
        let shapes: [&[usize]; 7] =
            [&[n, t, i], &[rows, i], &[rows, h], &[rows], &[rows, 2 * h], &[4, n, h], &[4, n, h]];
        let x: Vec<HostTensor> = shapes
            .iter()
            .map(|s| {
                let shape = Shape::new(s).unwrap();
                HostTensor::new(shape.clone(), dice.data(dtype, shape.numel(), false)).unwrap()
            })
            .collect();
        let want = all::<Reference>(&ReferenceDevice, &x, gates);
        for d in in_turn(&on, round) {
            let got = all::<elinvar_cpu::Cpu>(&d, &x, gates);
            assert_eq!(got.len(), want.len());
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!(got == want, "{gates} gates, {t} steps of {n} x {h} {dtype}, result {i}, {d:?}");
            }
        }
    }
}
