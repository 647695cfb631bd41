//! The functions of the compiler's library, version 2. A text is decoded where AMD's would compile
//! it, so that what is wrong with it is told there, in its log.

#![allow(missing_docs, reason = "the names and arguments are AMD's, who describes them in `amd_comgr.h`")]
#![allow(clippy::missing_safety_doc, reason = "as above")]

use super::object;
use crate::llvm::{ARCHS, parse};
use crate::settings::Settings;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type Handle = u64;

const SUCCESS: c_int = 0;
const ERROR: c_int = 1;
const INVALID_ARGUMENT: c_int = 2;

const KIND_LOG: c_int = 5;
const KIND_BC: c_int = 6;
const KIND_RELOCATABLE: c_int = 7;
const KIND_EXECUTABLE: c_int = 8;

/// Bytes of a kind.
#[derive(Clone, Debug)]
struct Data {
    kind: c_int,
    bytes: Vec<u8>,
}

/// What a handle stands for.
#[derive(Debug)]
enum Object {
    Data(Arc<Mutex<Data>>),
    Set(Vec<Arc<Mutex<Data>>>),
    /// An action's instruction set.
    Action(String),
}

#[derive(Default)]
struct Objects {
    all: HashMap<Handle, Object>,
    last: Handle,
}

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

/// A wrong handle, or another kind of object.
struct Wrong;

impl Objects {
    fn give(&mut self, object: Object, to: *mut Handle) -> Result<(), Wrong> {
        self.last += 1;
        self.all.insert(self.last, object);
        // SAFETY: the caller has room for a result there.
        unsafe { to.write(self.last) };
        Ok(())
    }
    fn data(&self, handle: Handle) -> Result<&Arc<Mutex<Data>>, Wrong> {
        if let Some(Object::Data(d)) = self.all.get(&handle) { Ok(d) } else { Err(Wrong) }
    }
    fn set(&mut self, handle: Handle) -> Result<&mut Vec<Arc<Mutex<Data>>>, Wrong> {
        if let Some(Object::Set(s)) = self.all.get_mut(&handle) { Ok(s) } else { Err(Wrong) }
    }
    /// The data of a kind in a set.
    fn of_kind(&mut self, set: Handle, kind: c_int) -> Result<Vec<Arc<Mutex<Data>>>, Wrong> {
        Ok(self.set(set)?.iter().filter(|d| lock(d).kind == kind).cloned().collect())
    }
    fn end(&mut self, handle: Handle) -> Result<(), Wrong> {
        self.all.remove(&handle).map(drop).ok_or(Wrong)
    }
}

fn lock(d: &Mutex<Data>) -> std::sync::MutexGuard<'_, Data> {
    d.lock().unwrap_or_else(PoisonError::into_inner)
}
fn with(f: impl FnOnce(&mut Objects) -> Result<(), Wrong>) -> c_int {
    match f(&mut OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)) {
        Ok(()) => SUCCESS,
        Err(Wrong) => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_get_version(major: *mut usize, minor: *mut usize) {
    // SAFETY: places for results.
    unsafe {
        major.write(2);
        minor.write(8);
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_get_isa_count(count: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { count.write(ARCHS.len()) };
    SUCCESS
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_get_isa_name(number: usize, name: *mut *const c_char) -> c_int {
    static NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
        ARCHS.iter().filter_map(|(arch, _)| CString::new(format!("amdgcn-amd-amdhsa--{arch}")).ok()).collect()
    });
    let Some(found) = NAMES.get(number) else { return INVALID_ARGUMENT };
    // SAFETY: as above.
    unsafe { name.write(found.as_ptr()) };
    SUCCESS
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_create_data(kind: c_int, to: *mut Handle) -> c_int {
    with(|o| o.give(Object::Data(Arc::new(Mutex::new(Data { kind, bytes: Vec::new() }))), to))
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_release_data(data: Handle) -> c_int {
    with(|o| {
        o.data(data)?;
        o.end(data)
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_set_data(data: Handle, size: usize, bytes: *const c_char) -> c_int {
    // SAFETY: the caller has `size` bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) }.to_vec();
    with(|o| {
        lock(o.data(data)?).bytes = bytes;
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_set_data_name(data: Handle, _name: *const c_char) -> c_int {
    with(|o| o.data(data).map(|_| ()))
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_get_data(data: Handle, size: *mut usize, to: *mut c_char) -> c_int {
    with(|o| {
        let data = lock(o.data(data)?);
        // SAFETY: a place for the size, which is the room at `to` if there is any.
        unsafe {
            if to.is_null() {
                size.write(data.bytes.len());
                return Ok(());
            }
            let room = size.read();
            if room < data.bytes.len() {
                return Err(Wrong);
            }
            to.cast::<u8>().copy_from_nonoverlapping(data.bytes.as_ptr(), data.bytes.len());
        }
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_create_data_set(to: *mut Handle) -> c_int {
    with(|o| o.give(Object::Set(Vec::new()), to))
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_destroy_data_set(set: Handle) -> c_int {
    with(|o| {
        o.set(set)?;
        o.end(set)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_data_set_add(set: Handle, data: Handle) -> c_int {
    with(|o| {
        let data = o.data(data)?.clone();
        o.set(set)?.push(data);
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_action_data_count(set: Handle, kind: c_int, to: *mut usize) -> c_int {
    with(|o| {
        let count = o.of_kind(set, kind)?.len();
        // SAFETY: a place for the result.
        unsafe { to.write(count) };
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_action_data_get_data(
    set: Handle,
    kind: c_int,
    number: usize,
    to: *mut Handle,
) -> c_int {
    with(|o| {
        let data = o.of_kind(set, kind)?.into_iter().nth(number).ok_or(Wrong)?;
        o.give(Object::Data(data), to)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_create_action_info(to: *mut Handle) -> c_int {
    with(|o| o.give(Object::Action(String::new()), to))
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_destroy_action_info(action: Handle) -> c_int {
    with(|o| match o.all.get(&action) {
        Some(Object::Action(_)) => o.end(action),
        Some(Object::Data(_) | Object::Set(_)) | None => Err(Wrong),
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amd_comgr_action_info_set_isa_name(action: Handle, name: *const c_char) -> c_int {
    // SAFETY: a text that ends with 0.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    with(|o| match o.all.get_mut(&action) {
        Some(Object::Action(isa)) if name.starts_with("amdgcn-amd-amdhsa--gfx") => {
            *isa = name;
            Ok(())
        }
        Some(_) | None => Err(Wrong),
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_action_info_set_option_list(
    _action: Handle,
    _options: *const *const c_char,
    _count: usize,
) -> c_int {
    SUCCESS
}
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_action_info_set_logging(_action: Handle, _on: bool) -> c_int {
    SUCCESS
}

/// A text as a relocatable object, or what is wrong with it.
fn compiled(isa: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the text is no UTF-8")?;
    let word = Settings::get().refuse;
    if !word.is_empty() && text.contains(word) {
        return Err(format!("texts with {word:?} are refused"));
    }
    let arch = isa.strip_prefix("amdgcn-amd-amdhsa--").ok_or("no instruction set was named")?;
    parse(text, arch)?;
    Ok(object::write(isa, text))
}

/// 6: texts to relocatable objects; 9: those to executable ones.
#[unsafe(no_mangle)]
pub extern "C" fn amd_comgr_do_action(kind: c_int, action: Handle, from: Handle, to: Handle) -> c_int {
    let mut result = SUCCESS;
    let done = with(|o| {
        let Some(Object::Action(isa)) = o.all.get(&action) else { return Err(Wrong) };
        let isa = isa.clone();
        let (taken, made) = match kind {
            6 => (KIND_BC, KIND_RELOCATABLE),
            9 => (KIND_RELOCATABLE, KIND_EXECUTABLE),
            _ => return Err(Wrong),
        };
        for data in o.of_kind(from, taken)? {
            let bytes = lock(&data).bytes.clone();
            let data = match if kind == 6 { compiled(&isa, &bytes) } else { Ok(bytes) } {
                Ok(bytes) => Data { kind: made, bytes },
                Err(why) => {
                    eprintln!("emulated hip: {why}");
                    result = ERROR;
                    Data { kind: KIND_LOG, bytes: format!("error: {why}").into_bytes() }
                }
            };
            o.set(to)?.push(Arc::new(Mutex::new(data)));
        }
        Ok(())
    });
    if done == SUCCESS { result } else { done }
}
