//! Functions of a library of products with the interface of cuBLASLt, which NVIDIA and AMD have
//! under names and numbers of their own. One algorithm, without a workspace.
//!
//! Callers guarantee the pointers, as the vendors' manuals require: handles are 0 or were made by
//! the functions here, pointers to results are null or valid, values have the stated size.

use crate::device::Error;
use crate::product::{Element, Multiply, Stored};
use crate::sys::functions::give;
use std::ffi::{c_int, c_void};

/// A pointer to something made here.
type Handle = *mut c_void;

/// A matmul descriptor: are factors rounded to TF32, and which are transposed (as the vendor counts
/// it)?
#[derive(Debug)]
pub struct Described {
    tf32: bool,
    order: [i32; 2],
}

/// A vendor's numbers.
#[derive(Debug)]
pub struct Numbers {
    /// A value that cannot be.
    pub invalid_value: c_int,
    /// The device failed.
    pub execution_failed: c_int,
    /// What this library cannot do.
    pub not_supported: c_int,
    /// Types of computation: sums in f32; the same of factors rounded to TF32.
    pub compute: [c_int; 2],
    /// Attributes of an operation: is a factor transposed?
    pub transposed: [c_int; 2],
    /// The values of these: as it is, and transposed.
    pub order: [i32; 2],
    /// Attributes of a matrix: how many in a batch, and how far apart.
    pub batch: [c_int; 2],
    /// The attribute of preferences for bytes of workspace.
    pub workspace: c_int,
    /// Those for alignments.
    pub alignments: &'static [c_int],
    /// Words of 8 bytes of an algorithm.
    pub algorithm_words: usize,
}

const SUCCESS: c_int = 0;
/// A word of the one algorithm.
const ALGORITHM: u64 = 0xe1;

impl Numbers {
    /// Makes something; where it is is written there.
    pub fn give<T>(&self, to: *mut Handle, v: T) -> c_int {
        let made = Box::into_raw(Box::new(v));
        match give(to, made.cast()) {
            Ok(()) => SUCCESS,
            Err(_) => {
                // SAFETY: it was just made, and is known here only.
                drop(unsafe { Box::from_raw(made) });
                self.invalid_value
            }
        }
    }
    /// Ends something.
    ///
    /// # Safety
    /// The handle is 0, or was created for this type, and is not used again.
    pub unsafe fn end<T>(&self, handle: Handle) -> c_int {
        if handle.is_null() {
            return self.invalid_value;
        }
        // SAFETY: guaranteed by the caller.
        drop(unsafe { Box::from_raw(handle.cast::<T>()) });
        SUCCESS
    }
    /// Writes an attribute.
    ///
    /// # Safety
    /// There are `size` bytes at `value`.
    unsafe fn set<T: Copy>(&self, to: &mut T, value: *const c_void, size: usize) -> c_int {
        if value.is_null() || size != size_of::<T>() {
            return self.invalid_value;
        }
        // SAFETY: guaranteed by the caller.
        *to = unsafe { value.cast::<T>().read_unaligned() };
        SUCCESS
    }
    /// A handle of the library, if the device works.
    pub fn create(&self, status: c_int, to: *mut Handle) -> c_int {
        if status == SUCCESS { self.give(to, ALGORITHM) } else { self.execution_failed }
    }
    /// An operation, on a device with TF32 or without.
    pub fn operation(&self, to: *mut Handle, compute: c_int, scale: c_int, has_tf32: bool) -> c_int {
        let known = self.compute.iter().position(|&c| c == compute);
        // Scales are f32.
        let Some(tf32) = known.filter(|_| scale == 0).map(|i| i == 1) else { return self.not_supported };
        if tf32 && !has_tf32 {
            return self.not_supported;
        }
        self.give(to, Described { tf32, order: [self.order[0]; 2] })
    }
    /// Sets an attribute of an operation.
    ///
    /// # Safety
    /// As said above.
    pub unsafe fn set_operation(
        &self,
        h: Handle,
        attribute: c_int,
        value: *const c_void,
        size: usize,
    ) -> c_int {
        // SAFETY: created above, and used by one caller at a time.
        let Some(described) = (unsafe { h.cast::<Described>().as_mut() }) else { return self.invalid_value };
        match self.transposed.iter().position(|&t| t == attribute) {
            // SAFETY: guaranteed by the caller.
            Some(i) => unsafe { self.set(&mut described.order[i], value, size) },
            None => self.not_supported,
        }
    }
    /// A matrix.
    pub fn layout(&self, to: *mut Handle, elem: c_int, [rows, columns]: [u64; 2], leading: i64) -> c_int {
        let elem = match elem {
            0 => Element::F32,
            2 => Element::F16,
            14 => Element::BF16,
            _ => return self.not_supported,
        };
        self.give(to, Stored { elem, rows, columns, leading, count: 1, batch: 0 })
    }
    /// Sets an attribute of a matrix.
    ///
    /// # Safety
    /// As said above.
    pub unsafe fn set_layout(&self, h: Handle, attribute: c_int, value: *const c_void, size: usize) -> c_int {
        // SAFETY: created above, and used by one caller at a time.
        let Some(stored) = (unsafe { h.cast::<Stored>().as_mut() }) else { return self.invalid_value };
        match self.batch.iter().position(|&b| b == attribute) {
            // SAFETY: guaranteed by the caller.
            Some(0) => unsafe { self.set(&mut stored.count, value, size) },
            // SAFETY: guaranteed by the caller.
            Some(_) => unsafe { self.set(&mut stored.batch, value, size) },
            None => self.not_supported,
        }
    }
    /// Sets a preference.
    ///
    /// # Safety
    /// As said above.
    pub unsafe fn set_preference(
        &self,
        h: Handle,
        attribute: c_int,
        value: *const c_void,
        size: usize,
    ) -> c_int {
        // SAFETY: created above, and used by one caller at a time.
        let Some(room) = (unsafe { h.cast::<u64>().as_mut() }) else { return self.invalid_value };
        if attribute == self.workspace {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.set(room, value, size) };
        }
        if !self.alignments.contains(&attribute) {
            return self.not_supported;
        }
        // Any is accepted.
        let mut alignment = 0u32;
        // SAFETY: guaranteed by the caller.
        match unsafe { self.set(&mut alignment, value, size) } {
            SUCCESS if alignment.is_power_of_two() => SUCCESS,
            _ => self.invalid_value,
        }
    }
    /// The product that handles describe, at these addresses.
    ///
    /// # Safety
    /// As said above.
    unsafe fn described(&self, operation: Handle, matrices: [Handle; 3], at: [u64; 3]) -> Option<Multiply> {
        // SAFETY: guaranteed by the caller.
        let (operation, matrices) = unsafe {
            (operation.cast::<Described>().as_ref()?, matrices.map(|m| m.cast::<Stored>().as_ref()))
        };
        let [Some(a), Some(b), Some(d)] = matrices else { return None };
        let mut transposed = [false; 2];
        for (side, order) in transposed.iter_mut().zip(operation.order) {
            *side = self.order.iter().position(|&known| known == order)? == 1;
        }
        let m = Multiply { tf32: operation.tf32, transposed, stored: [*a, *b, *d], at };
        m.fits().then_some(m)
    }
    /// Ways to do a product: one, if it can be done.
    ///
    /// # Safety
    /// As said above; there is room for `requested` results.
    pub unsafe fn ways(
        &self,
        [operation, a, b, d, preference]: [Handle; 5],
        requested: c_int,
        ways: *mut u64,
        found: *mut c_int,
    ) -> c_int {
        if preference.is_null() || requested < 1 || ways.is_null() || found.is_null() {
            return self.invalid_value;
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.described(operation, [a, b, d], [0; 3]).is_none() {
                found.write(0);
                return self.not_supported;
            }
            let words = self.algorithm_words;
            (0..words).for_each(|i| ways.add(i).write(ALGORITHM));
            // No workspace; a status and a count of waves; four numbers that are not read.
            ways.add(words).write(0);
            ways.add(words + 1).write(u64::from(1f32.to_bits()) << 32);
            (2..4).for_each(|i| ways.add(words + i).write(0));
            found.write(1);
        }
        SUCCESS
    }
    /// The product of a call: of scales 1 and 0, by the one algorithm.
    ///
    /// # Errors
    /// What the library says of any other.
    ///
    /// # Safety
    /// As said above.
    pub unsafe fn product(
        &self,
        operation: Handle,
        [alpha, beta]: [*const f32; 2],
        matrices: [Handle; 3],
        at: [u64; 3],
        algorithm: *const u64,
    ) -> Result<Multiply, c_int> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let plain = !alpha.is_null() && *alpha == 1.0 && !beta.is_null() && *beta == 0.0;
            let known =
                !algorithm.is_null() && (0..self.algorithm_words).all(|i| *algorithm.add(i) == ALGORITHM);
            if !plain || !known {
                return Err(self.not_supported);
            }
            self.described(operation, matrices, at).ok_or(self.invalid_value)
        }
    }
    /// What the library says after work was given to a stream.
    pub fn given(&self, status: c_int) -> c_int {
        match status {
            SUCCESS => SUCCESS,
            e if e == Error::INVALID_HANDLE.0 => self.invalid_value,
            _ => self.execution_failed,
        }
    }
}

/// The functions of a library, each by its name. The first argument calls a closure with the device
/// of this thread, the second are the vendor's numbers.
#[macro_export]
macro_rules! product_functions {
    (
        $within:path, $numbers:path;
        library: $create:ident $destroy:ident;
        operations: $operation:ident $set_operation:ident $end_operation:ident;
        matrices: $layout:ident $set_layout:ident $end_layout:ident;
        preferences: $preference:ident $set_preference:ident $end_preference:ident;
        products: $ways:ident $multiply:ident;
        tf32: $tf32:expr;
    ) => {
        use std::ffi::{c_int, c_void};
        use $crate::device::{Operation, Work};
        use $crate::product::Stored;
        use $crate::sys::products::Described;

        #[unsafe(no_mangle)]
        pub extern "C" fn $create(handle: *mut Handle) -> c_int {
            $numbers.create($within(|_| Ok(())), handle)
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $destroy(handle: Handle) -> c_int {
            // SAFETY: created above.
            unsafe { $numbers.end::<u64>(handle) }
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $operation(to: *mut Handle, compute: c_int, scale: c_int) -> c_int {
            $numbers.operation(to, compute, scale, $tf32)
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $end_operation(handle: Handle) -> c_int {
            // SAFETY: created above.
            unsafe { $numbers.end::<Described>(handle) }
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_operation(
            h: Handle,
            key: c_int,
            v: *const c_void,
            size: usize,
        ) -> c_int {
            // SAFETY: the caller keeps to the manual.
            unsafe { $numbers.set_operation(h, key, v, size) }
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $layout(
            to: *mut Handle,
            elem: c_int,
            rows: u64,
            columns: u64,
            leading: i64,
        ) -> c_int {
            $numbers.layout(to, elem, [rows, columns], leading)
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $end_layout(handle: Handle) -> c_int {
            // SAFETY: created above.
            unsafe { $numbers.end::<Stored>(handle) }
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_layout(h: Handle, key: c_int, v: *const c_void, size: usize) -> c_int {
            // SAFETY: the caller keeps to the manual.
            unsafe { $numbers.set_layout(h, key, v, size) }
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $preference(to: *mut Handle) -> c_int {
            $numbers.give(to, 0u64)
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $end_preference(handle: Handle) -> c_int {
            // SAFETY: created above.
            unsafe { $numbers.end::<u64>(handle) }
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_preference(
            h: Handle,
            key: c_int,
            v: *const c_void,
            size: usize,
        ) -> c_int {
            // SAFETY: the caller keeps to the manual.
            unsafe { $numbers.set_preference(h, key, v, size) }
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $ways(
            _handle: Handle,
            operation: Handle,
            a: Handle,
            b: Handle,
            _c: Handle,
            d: Handle,
            preference: Handle,
            requested: c_int,
            ways: *mut u64,
            found: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller keeps to the manual.
            unsafe { $numbers.ways([operation, a, b, d, preference], requested, ways, found) }
        }
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $multiply(
            _handle: Handle,
            operation: Handle,
            alpha: *const f32,
            a_at: u64,
            a: Handle,
            b_at: u64,
            b: Handle,
            beta: *const f32,
            _c_at: u64,
            _c: Handle,
            d_at: u64,
            d: Handle,
            algorithm: *const u64,
            _workspace: u64,
            _size: usize,
            stream: Handle,
        ) -> c_int {
            // SAFETY: the caller keeps to the manual.
            let product = unsafe {
                $numbers.product(operation, [alpha, beta], [a, b, d], [a_at, b_at, d_at], algorithm)
            };
            match product {
                Ok(product) => $numbers.given($within(|device| {
                    device.push(stream as u64, Operation::Work(Work::Multiply(product)))
                })),
                Err(status) => status,
            }
        }
    };
}
