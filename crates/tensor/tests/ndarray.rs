//! Conversion from and to the arrays of the crate `ndarray`: any rank, any order in memory.
#![cfg(feature = "ndarray")]

use elinvar_core::ErrorKind;
use elinvar_reference::ReferenceDevice;
use elinvar_tensor::Tensor;
use ndarray::{Array0, Array2, Array3, ArrayD, arr0, arr2, s};

const D: ReferenceDevice = ReferenceDevice;

#[test]
fn conversion_round_trips() {
    let a = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as f32);
    let t = Tensor::from_ndarray(&a, &D).unwrap();
    assert_eq!((t.dims(), t.to_vec::<f32>().unwrap()), (&[2, 3, 4][..], a.iter().copied().collect()));
    assert_eq!(t.to_ndarray::<f32>().unwrap(), a.into_dyn());
    let scalar: Array0<i64> = arr0(7);
    assert_eq!(Tensor::from_ndarray(&scalar, &D).unwrap().to_ndarray::<i64>().unwrap(), scalar.into_dyn());
    let empty: Array2<f64> = Array2::zeros((3, 0));
    assert_eq!(Tensor::from_ndarray(&empty, &D).unwrap().to_ndarray::<f64>().unwrap(), empty.into_dyn());
}

/// Elements are read by their index in the array, not in memory order.
#[test]
fn views_in_any_order() {
    let a = arr2(&[[1, 2, 3], [4, 5, 6i32]]);
    let rows = [
        (Tensor::from_ndarray(&a.t(), &D).unwrap(), vec![3, 2], vec![1, 4, 2, 5, 3, 6]),
        (Tensor::from_ndarray(&a.slice(s![.., ..;-2]), &D).unwrap(), vec![2, 2], vec![3, 1, 6, 4]),
        (
            Tensor::from_ndarray(&a.broadcast((2, 2, 3)).unwrap(), &D).unwrap().i(1),
            vec![2, 3],
            vec![1, 2, 3, 4, 5, 6],
        ),
    ];
    for (t, shape, want) in rows {
        assert_eq!((t.dims(), t.to_vec::<i32>().unwrap()), (&shape[..], want));
    }
    let turned: ArrayD<i32> = Tensor::from_ndarray(&a, &D).unwrap().t().to_ndarray().unwrap();
    assert_eq!(turned, a.t().into_dyn());
}

#[test]
fn another_type_is_an_error() {
    let t = Tensor::from_ndarray(&arr0(1.0f32), &D).unwrap();
    assert_eq!(t.to_ndarray::<f64>().unwrap_err().kind(), ErrorKind::DTypeMismatch);
}
