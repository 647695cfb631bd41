//! Open backends by number, errors by thread, and the numbers that C has for our enums.

use elinvar_compute::{
    BackendError, BackendResult, BackendTranspose, BinaryOp, ComputeBackend, Raw, ReduceOp, UnaryOp,
};
use elinvar_core::DType;
use elinvar_devices::{Any, Device};
use std::any::Any as Payload;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// This backend or build has no such operation.
    Unsupported = 1,
    /// The device or its driver failed.
    DeviceError = 2,
    /// An argument does not fit.
    InvalidArgument = 3,
    /// Memory is exhausted.
    OutOfMemory = 4,
    /// A call before `elinvar_init`.
    NotInitialized = 5,
    /// A defect of the library.
    Panic = 6,
}

/// A number of C's for a backend.
pub(crate) type Number = u64;

struct Open {
    last: Number,
    all: BTreeMap<Number, Arc<Raw<Any>>>,
}

static OPEN: Mutex<Open> = Mutex::new(Open { last: 0, all: BTreeMap::new() });

fn open_backends() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The sentence of the last call of this thread that failed.
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

fn invalid(said: String) -> BackendError {
    BackendError::InvalidArgument(said)
}

/// A text for C: a 0 within would end it.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

fn remember(said: &str) {
    // A thread that is ending is asked no more.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = c_string(said));
}

/// What a panic said.
fn said(payload: &(dyn Payload + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The status of a call; of one that failed, the sentence is kept.
pub(crate) fn status(call: impl FnOnce() -> BackendResult<()>) -> c_int {
    let status = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Status::Ok as c_int,
        Ok(Err(e)) => {
            remember(&e.to_string());
            match e {
                BackendError::Unsupported(_) => Status::Unsupported,
                BackendError::DeviceError(_) => Status::DeviceError,
                BackendError::InvalidArgument(_) => Status::InvalidArgument,
                BackendError::OutOfMemory => Status::OutOfMemory,
                BackendError::NotInitialized => Status::NotInitialized,
            }
        }
        Err(panic) => {
            remember(&format!("a defect of the library: {}", said(&*panic)));
            Status::Panic
        }
    };
    status as c_int
}

/// The sentence of the last call of this thread that failed, until the next one does; empty if none
/// did.
pub(crate) fn with_last_error<T>(f: impl FnOnce(&CStr) -> T) -> Option<T> {
    LAST_ERROR.try_with(|last| f(&last.borrow())).ok()
}

/// Opens a device by its name: 0 is f32, 1 is f64, 2 is f64 in products and f32 elsewhere.
pub(crate) fn open(device: &str, elements: c_int) -> BackendResult<Number> {
    let device = Device::parse(device)?;
    let raw = match elements {
        0 => Raw::<Any>::new(device, DType::F32)?,
        1 => Raw::<Any>::new(device, DType::F64)?,
        2 => Raw::<Any>::as_published(device),
        other => {
            return Err(invalid(format!(
                "elements {other}; there are ELINVAR_F32, ELINVAR_F64 and ELINVAR_AS_PUBLISHED"
            )));
        }
    };
    let mut open = open_backends();
    open.last += 1;
    let number = open.last;
    open.all.insert(number, Arc::new(raw));
    Ok(number)
}

fn unknown(number: Number) -> BackendError {
    invalid(format!("backend {number} is not open; elinvar_open gives the number of one"))
}

pub(crate) fn close(number: Number) -> BackendResult<()> {
    // Outside of the lock: freeing memory may take its time.
    let gone = open_backends().all.remove(&number);
    gone.map(drop).ok_or_else(|| unknown(number))
}

/// An open backend.
pub(crate) fn backend(number: Number) -> BackendResult<Arc<Raw<Any>>> {
    open_backends().all.get(&number).cloned().ok_or_else(|| unknown(number))
}

/// The name of a backend, which stays: there are a handful of names.
pub(crate) fn name(number: Number) -> BackendResult<&'static CStr> {
    static NAMES: Mutex<BTreeMap<String, &'static CStr>> = Mutex::new(BTreeMap::new());
    let raw = backend(number)?;
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let leak = || &*Box::leak(c_string(raw.name()).into_boxed_c_str());
    Ok(names.entry(raw.name().to_string()).or_insert_with(leak))
}

/// One of our enum's by C's number.
fn pick<T: Copy>(what: &str, all: &[T], number: c_int) -> BackendResult<T> {
    let found = usize::try_from(number).ok().and_then(|i| all.get(i)).copied();
    found.ok_or_else(|| invalid(format!("{what} {number}; it must be in 0..{}", all.len())))
}

pub(crate) fn transpose(what: &str, number: c_int) -> BackendResult<BackendTranspose> {
    use BackendTranspose::{ConjTrans, NoTrans, Trans};
    pick(what, &[NoTrans, Trans, ConjTrans], number)
}
pub(crate) fn reduce_op(number: c_int) -> BackendResult<ReduceOp> {
    pick("op", ReduceOp::ALL, number)
}
pub(crate) fn unary_op(number: c_int) -> BackendResult<UnaryOp> {
    pick("op", UnaryOp::ALL, number)
}
pub(crate) fn binary_op(number: c_int) -> BackendResult<BinaryOp> {
    pick("op", BinaryOp::ALL, number)
}
