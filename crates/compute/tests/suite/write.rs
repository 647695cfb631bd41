//! `Array::write` on every backend: what a raw result in the midst of memory is written by.

use crate::{cuda, vulkan};
use elinvar_core::{DType, ErrorKind, Layout, Scalar, Shape};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_driver::{Cuda, Vulkan};
use elinvar_gpu::Gpu;
use elinvar_ops::{Array, Backend, catalogue as op};
use elinvar_reference::{Reference, ReferenceDevice};

fn line<B: Backend>(d: &B::Device, dtype: DType, len: usize) -> Array<B> {
    let v: Vec<i64> = (0..len as i64).map(|i| i * 7 % 5 + 1).collect();
    Array::from_vec(d, v, &[len]).unwrap().cast(dtype).unwrap()
}
fn layout(shape: &[usize], strides: &[isize], offset: usize, len: usize) -> Layout {
    Layout::strided(Shape::new(shape).unwrap(), strides, offset, len).unwrap()
}
fn values<B: Backend>(x: &Array<B>) -> Vec<f64> {
    x.to_host().unwrap().to_f64_vec()
}

fn writes<B: Backend>(d: &B::Device) {
    let rows = [
        (layout(&[40], &[1], 0, 40), layout(&[40], &[1], 30, 100)),
        (layout(&[3, 5], &[5, 1], 10, 40), layout(&[3, 5], &[20, 2], 7, 100)),
        // Turned, backwards, of one element many times.
        (layout(&[6, 4], &[1, 6], 0, 40), layout(&[6, 4], &[10, 1], 0, 100)),
        (layout(&[6, 4], &[4, 1], 0, 40), layout(&[6, 4], &[1, 10], 3, 100)),
        (layout(&[9], &[-1], 20, 40), layout(&[9], &[3], 1, 100)),
        (layout(&[2, 8], &[0, 0], 5, 40), layout(&[2, 8], &[-50, -1], 99, 100)),
        // Strides of which none steps over the other's reach: 0, 6, 4, 10, 8, 14.
        (layout(&[3, 2], &[2, 1], 0, 40), layout(&[3, 2], &[4, 6], 0, 100)),
        (layout(&[2, 0], &[1, 1], 0, 40), layout(&[2, 0], &[1, 1], 0, 100)),
        (layout(&[100], &[0], 5, 40), layout(&[100], &[1], 0, 100)),
    ];
    for dtype in DType::ALL {
        let mut to = line::<B>(d, dtype, 100);
        let (from, mut want) = (line::<B>(d, dtype, 40), values(&to));
        let other = to.clone();
        for (x, place) in &rows {
            to.write(place, &from.with_layout(x.clone())).unwrap();
            let v = values(&from);
            x.positions().zip(place.positions()).for_each(|(p, q)| want[q] = v[p]);
            assert_eq!(values(&to), want, "{dtype} {place:?}");
        }
        assert_eq!(values(&other), values(&line::<B>(d, dtype, 100)), "the other handle is as it was");
    }
    // What is put off and reads the memory that is written has the old elements.
    let mut to = line::<B>(d, DType::F32, 5000);
    let place = layout(&[4000], &[1], 500, 5000);
    let old = values(&to);
    let x = op::neg(&to.with_layout(layout(&[4000], &[1], 600, 5000))).unwrap();
    let later = op::add(&to, &to).unwrap();
    to.write(&place, &x).unwrap();
    let want: Vec<f64> =
        (0..5000).map(|i| if (500..4500).contains(&i) { -old[i + 100] } else { old[i] }).collect();
    assert_eq!(values(&to), want);
    assert_eq!(values(&later), old.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
}

#[test]
fn a_view_is_written_in_place() {
    writes::<Reference>(&ReferenceDevice);
    writes::<Cpu>(&CpuDevice::default());
    writes::<Gpu<Cuda>>(&cuda());
    if let Some(d) = vulkan() {
        writes::<Gpu<Vulkan>>(&d);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let d = ReferenceDevice;
    let mut to =
        Array::<Reference>::full(&d, &Shape::new(&[10]).unwrap(), Scalar::Int(0), DType::F32).unwrap();
    let x = line::<Reference>(&d, DType::F32, 4);
    let one =
        |at: &Layout, x: &Array<Reference>, to: &mut Array<Reference>| to.write(at, x).unwrap_err().kind();
    let good = layout(&[4], &[2], 1, 10);
    assert_eq!(one(&good, &line::<Reference>(&d, DType::F64, 4), &mut to), ErrorKind::DTypeMismatch);
    assert_eq!(one(&layout(&[2, 2], &[2, 1], 0, 10), &x, &mut to), ErrorKind::ShapeMismatch);
    assert_eq!(one(&layout(&[4], &[3], 1, 11), &x, &mut to), ErrorKind::InvalidArgument);
    for (shape, strides) in [(&[4][..], &[0][..]), (&[2, 2], &[1, 1]), (&[2, 2], &[3, -3])] {
        let (at, x) = (layout(shape, strides, 3, 10), x.reshape(&Shape::new(shape).unwrap()).unwrap());
        assert_eq!(one(&at, &x, &mut to), ErrorKind::InvalidArgument, "{at:?}");
    }
    assert_eq!(values(&to), [0.0; 10]);
    to.write(&good, &x).unwrap();
    assert_eq!(values(&to)[1..4], [1.0, 0.0, 3.0]);
}
