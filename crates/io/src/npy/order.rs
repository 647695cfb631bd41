//! Column-major elements (NumPy's "Fortran order") to row-major ones.

use elinvar_core::host::with_capacity;
use elinvar_core::{Element, HostData, Result, Shape, each_data};

/// The same tensor, row-major. The number of elements is the shape's.
pub fn to_row_major(data: HostData, shape: &Shape) -> Result<HostData> {
    each_data!(data, v => Ok(Element::wrap(reordered(&v, shape)?)))
}

fn reordered<T: Copy>(from: &[T], shape: &Shape) -> Result<Vec<T>> {
    // The rank is bounded by the header's length, and no product exceeds the number of elements.
    let mut strides = with_capacity(shape.rank())?;
    let mut index = with_capacity(shape.rank())?;
    let mut stride = 1;
    for &size in shape.dims() {
        strides.push(stride);
        index.push(0);
        stride *= size;
    }
    let mut to = with_capacity(from.len())?;
    let mut at = 0;
    for _ in 0..from.len() {
        to.push(from[at]);
        // The next index in row-major order, and its position in `from`.
        for axis in (0..shape.rank()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_runs_fastest() {
        // numpy.arange(24).reshape(2, 3, 4, order="F").ravel()
        let want = [0, 6, 12, 18, 2, 8, 14, 20, 4, 10, 16, 22, 1, 7, 13, 19, 3, 9, 15, 21, 5, 11, 17, 23];
        let rows: [(&[usize], &[i32]); 5] = [
            (&[2, 3, 4], &want),
            (&[24], &Vec::from_iter(0..24)),
            (&[1, 3, 1], &[0, 1, 2]),
            (&[], &[0]),
            (&[2, 0], &[]),
        ];
        for (shape, want) in rows {
            let shape = Shape::new(shape).unwrap();
            let from = HostData::I32((0..shape.numel() as i32).collect());
            assert_eq!(to_row_major(from, &shape).unwrap(), HostData::I32(want.to_vec().into()), "{shape}");
        }
    }
}
