//! GEMM by a vendor's library with the interface of cuBLASLt, where it is installed: NVIDIA's, and
//! AMD's hipBLASLt, which has its functions and other numbers ([`BlasLtLibrary`]).
//!
//! Such a library comes with a toolkit, and with PyTorch, not with the driver; nothing here needs
//! it. Its matrices are column-major, so that a matrix of ours is its transpose there:
//! y^T = w^T x^T.

use super::blaslt_library::{BlasLtFunctions, BlasLtLibrary, MAX_WORKSPACE_BYTES, R_32F, WAY_WORDS, Way};
use super::column_major::Stored;
use super::device::Shared;
use super::functions::{Address, Handle};
use super::memory;
use crate::VendorGemm;
use elinvar_core::{ErrorKind, Result};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// Bytes that it may use beside the operands: what NVIDIA and AMD advise for their newest cards.
const WORKSPACE: usize = 32 << 20;

/// What a product is known by: itself, and what the addresses of factors and result are multiples
/// of.
type Key = (VendorGemm, [u32; 3]);

/// A description that the library made. It goes when it is dropped.
struct Made {
    raw: Handle,
    end: unsafe extern "system" fn(Handle) -> c_int,
}

impl Made {
    /// What `make` makes, and `end` is to end.
    ///
    /// # Errors
    /// What the library reports.
    fn new(
        end: unsafe extern "system" fn(Handle) -> c_int,
        make: impl FnOnce(*mut Handle) -> Result<()>,
    ) -> Result<Made> {
        let mut raw = std::ptr::null_mut();
        make(&raw mut raw)?;
        Ok(Made { raw, end })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the function for what was made, which is not used any more. A description is not
        // read by work that is under way.
        unsafe { (self.end)(self.raw) };
    }
}

// SAFETY: a handle of a description, which is not changed any more and may be used by any thread.
unsafe impl Send for Made {}

/// A product that the library can do.
struct MatmulPlan {
    operation: Made,
    layouts: [Made; 3],
    way: Way,
}

/// The library on a device.
pub struct BlasLt {
    library: &'static BlasLtLibrary,
    functions: &'static BlasLtFunctions,
    handle: Handle,
    /// In whose order the workspace is used.
    stream: Handle,
    workspace: Address,
    /// `None`: the library cannot do it.
    plans: HashMap<Key, Option<MatmulPlan>>,
}

// SAFETY: a handle that any thread may use once the device is its own; it is used under the
// queue's lock.
unsafe impl Send for BlasLt {}

impl BlasLt {
    /// The device's library, for one stream; `None` if it is not installed.
    ///
    /// # Errors
    /// `OutOfMemory`; what the library reports.
    pub fn new(shared: &Shared, stream: Handle) -> Result<Option<BlasLt>> {
        let library = shared.api.products;
        let Some(functions) = library.functions() else { return Ok(None) };
        shared.enter()?;
        let workspace = memory::allocate(shared, stream, WORKSPACE as u64)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the place for the result is valid, and the device is the thread's.
        let started = unsafe { (functions.create)(&raw mut handle) };
        if let Err(e) = library.check(started, "starting") {
            memory::free_in(shared, stream, workspace);
            return Err(e);
        }
        Ok(Some(BlasLt { library, functions, handle, stream, workspace, plans: HashMap::new() }))
    }
    /// Gives back what it has. The stream has nothing to do.
    pub fn destroy(self, shared: &Shared) {
        let BlasLt { library: _, functions, handle, stream, workspace, plans } = self;
        memory::free_in(shared, stream, workspace);
        drop(plans);
        // SAFETY: the handle was made by this library, and it is not used any more.
        unsafe { (functions.destroy)(handle) };
    }
    /// Gives a product to a stream. `false`: the library cannot do it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn multiply(&mut self, stream: Handle, p: &VendorGemm, [x, w, y]: [Address; 3]) -> Result<bool> {
        let key = (*p, [x, w, y].map(|at| 1 << at.trailing_zeros().min(8)));
        if !self.plans.contains_key(&key) {
            let plan = self.plan(&key)?;
            self.plans.insert(key, plan);
        }
        let Some(Some(MatmulPlan { operation, layouts, way })) = self.plans.get(&key) else {
            return Ok(false);
        };
        let [a, b, c] = layouts.each_ref().map(|l| l.raw);
        let (one, zero) = (1f32, 0f32);
        // SAFETY: everything was made by this library for this product; operands and workspace are
        // in their memory, which is given back in the stream's order.
        let given = unsafe {
            let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
            let (algorithm, workspace) = (way.0.as_ptr(), self.workspace);
            (self.functions.multiply)(
                self.handle,
                operation.raw,
                alpha,
                w,
                a,
                x,
                b,
                beta,
                y,
                c,
                y,
                c,
                algorithm,
                workspace,
                way.workspace(self.library),
                stream,
            )
        };
        self.library.check(given, "a product")?;
        Ok(true)
    }
    fn plan(&self, key: &Key) -> Result<Option<MatmulPlan>> {
        for &compute in self.library.compute(key.0.elem) {
            match self.plan_by(key, compute) {
                Ok(Some(plan)) => return Ok(Some(plan)),
                // A type of computation that this version or device does not have, too.
                Ok(None) => {}
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
    fn plan_by(&self, (p, alignments): &Key, compute: c_int) -> Result<Option<MatmulPlan>> {
        let (library, f) = (self.library, self.functions);
        let [b, m, n, k] = p.sizes;
        let largest = [b, m, n, k].into_iter().max().unwrap_or(0);
        // Of the library's first factor, w^T, n goes downwards.
        let first = Stored::of([n, k], [p.w[0], p.w[2], p.w[1]]);
        let second = Stored::of([k, m], [p.x[0], p.x[2], p.x[1]]);
        let (Some(elem), Some(first), Some(second), true) =
            (BlasLtLibrary::elem(p.elem), first, second, largest <= i32::MAX as usize)
        else {
            return Ok(None);
        };
        let result =
            Stored { rows: n, columns: m, leading: n as i64, batch: (m * n) as i64, transposed: false };
        // SAFETY: the place for the result is valid.
        let make = |to| library.check(unsafe { (f.operation)(to, compute, R_32F) }, "an operation");
        let operation = Made::new(f.end_operation, make)?;
        for (attribute, factor) in library.transposed.into_iter().zip([&first, &second]) {
            let value = library.order[usize::from(factor.transposed)];
            // SAFETY: the operation was just made; the value has the size that is said.
            let set = unsafe {
                (f.set_operation)(operation.raw, attribute, (&raw const value).cast(), size_of_val(&value))
            };
            library.check(set, "an operation")?;
        }
        let layout = |s: &Stored| self.layout(elem, b, s);
        let layouts = [layout(&first)?, layout(&second)?, layout(&result)?];
        let [a, b, c] = layouts.each_ref().map(|l| l.raw);
        let preference = self.preference(alignments)?;
        let (mut way, mut found) = (Way([0; WAY_WORDS]), 0);
        let (ways, count) = (&raw mut way, &raw mut found);
        // SAFETY: all descriptions were just made, and there is room for one result.
        let asked =
            unsafe { (f.ways)(self.handle, operation.raw, a, b, c, c, preference.raw, 1, ways, count) };
        match asked {
            0 if found > 0 && way.state(library) == 0 => Ok(Some(MatmulPlan { operation, layouts, way })),
            0 => Ok(None),
            s if s == library.status.not_supported => Ok(None),
            other => library.check(other, "looking for a way").map(|()| None),
        }
    }
    fn layout(&self, elem: c_int, count: usize, s: &Stored) -> Result<Made> {
        let (library, f, count, batch) = (self.library, self.functions, count as i32, s.batch);
        let layout = Made::new(f.end_layout, |to| {
            // SAFETY: the place for the result is valid.
            let made = unsafe { (f.layout)(to, elem, s.rows as u64, s.columns as u64, s.leading) };
            library.check(made, "a matrix")
        })?;
        let [of_count, of_batch] = library.batch;
        // SAFETY: the layout was just made; the values have the sizes that are said.
        unsafe {
            let set = (f.set_layout)(layout.raw, of_count, (&raw const count).cast(), size_of_val(&count));
            library.check(set, "a batch")?;
            let set = (f.set_layout)(layout.raw, of_batch, (&raw const batch).cast(), size_of_val(&batch));
            library.check(set, "a batch")?;
        }
        Ok(layout)
    }
    /// What a way has to keep to: the workspace, and what addresses are multiples of.
    fn preference(&self, [x, w, y]: &[u32; 3]) -> Result<Made> {
        let (library, f) = (self.library, self.functions);
        // SAFETY: the place for the result is valid.
        let make = |to| library.check(unsafe { (f.preference)(to) }, "a preference");
        let preference = Made::new(f.end_preference, make)?;
        let prefer = |attribute: c_int, value: *const c_void, size: usize| {
            // SAFETY: the preference was just made; the value has the size that is said.
            let set = unsafe { (f.set_preference)(preference.raw, attribute, value, size) };
            library.check(set, "a preference")
        };
        let workspace = WORKSPACE as u64;
        prefer(MAX_WORKSPACE_BYTES, (&raw const workspace).cast(), size_of_val(&workspace))?;
        let alignments = library.alignments.into_iter().flatten();
        for (attribute, alignment) in alignments.zip([w, x, y, y]) {
            prefer(attribute, std::ptr::from_ref(alignment).cast(), size_of_val(alignment))?;
        }
        Ok(preference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::Error;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn what_was_made_is_ended_once() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        extern "system" fn end(handle: Handle) -> c_int {
            ENDED.fetch_add(handle.addr(), Relaxed);
            0
        }
        let make = |made: Result<()>| {
            Made::new(end, |to| {
                // SAFETY: the place for the result, which is valid.
                unsafe { to.write(std::ptr::without_provenance_mut(7)) };
                made
            })
        };
        assert!(make(Err(Error::unsupported("nothing"))).is_err());
        assert_eq!(ENDED.load(Relaxed), 0, "what was not made is not ended");
        drop(make(Ok(())).unwrap());
        assert_eq!(ENDED.load(Relaxed), 7);
    }
}
