//! What the page's worker calls: a training run that goes on for a while at a time, so that the
//! worker hears messages in between, and that is saved and resumed as bytes.
//!
//! What waits for a device is a promise, and a training is at one of them at a time. Progress is
//! told as JSON text: it is small, and the page wants objects. A panic ends the module;
//! its sentence is what [`last_panic`] gives then.
#![cfg(target_arch = "wasm32")]

mod run;

use elinvar::core::clock;
use elinvar::nn::data::{Digits, digits};
use elinvar::{Device, Error, Properties};
use run::Run;
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// Milliseconds since the worker began.
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
}

static PANIC: Mutex<String> = Mutex::new(String::new());

/// Prepares the module. To be called first, once.
#[wasm_bindgen(start)]
fn start() {
    clock::set_clock(|| Duration::from_secs_f64(now() / 1000.0));
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = PANIC.lock() {
            *last = info.payload_as_str().unwrap_or("a panic without words").to_owned();
        }
    }));
}

/// The sentence of the panic that ended the module, if there was one.
#[wasm_bindgen]
pub fn last_panic() -> String {
    PANIC.lock().map(|last| last.clone()).unwrap_or_default()
}

/// The devices that this browser has for the module, as JSON: `[{ "name", "instructions" }]`.
///
/// # Errors
/// What a device reports when it is probed.
#[wasm_bindgen]
pub fn devices() -> Result<String, JsError> {
    let all = Device::list().map_err(sentence)?;
    let rows =
        all.iter().map(|d| json!({ "name": d.device.to_string(), "instructions": d.properties.driver }));
    Ok(serde_json::Value::Array(rows.collect()).to_string())
}

/// The browser's WebGPU adapter, opened and probed, as JSON: `{ "name", "exactness" }`. From then
/// on it is the device `webgpu:0`.
///
/// # Errors
/// If there is none, or it lacks what is needed.
#[wasm_bindgen]
pub async fn webgpu() -> Result<String, JsError> {
    let found = Device::webgpu_async().await.map_err(sentence)?;
    let Properties { name, .. } = found.properties;
    Ok(json!({ "name": name, "exactness": found.exactness.to_string() }).to_string())
}

/// Some images of the data set, to show what is learned: `count` times 64 numbers from 0 to 1.
///
/// # Errors
/// If the data is damaged.
#[wasm_bindgen]
pub fn examples(count: usize) -> Result<Vec<f32>, JsError> {
    let mut pixels = digits().map_err(sentence)?.pixels;
    pixels.truncate(count * Digits::PIXELS);
    Ok(pixels)
}

/// A training of a network on the digits.
#[wasm_bindgen]
pub struct Training(Run);

#[wasm_bindgen]
impl Training {
    /// A new one. `epochs` and `batch`: 0 for the network's own. `memory_limit`: bytes that tensors
    /// may hold at most, 0 for no limit but the browser's.
    ///
    /// # Errors
    /// If there is no such network or device, or memory is exhausted.
    #[wasm_bindgen(constructor)]
    pub fn new(
        model: &str,
        device: &str,
        seed: u32,
        epochs: u32,
        batch: u32,
        memory_limit: f64,
    ) -> Result<Training, JsError> {
        Run::new(model, device, u64::from(seed), epochs as usize, batch as usize, memory_limit as u64)
            .map(Training)
            .map_err(sentence)
    }
    /// One that goes on from the bytes of [`Training::save`], on the same device or another.
    ///
    /// # Errors
    /// If the bytes are damaged, there is no such device, or memory is exhausted.
    pub fn resume(bytes: &[u8], device: &str, memory_limit: f64) -> Result<Training, JsError> {
        Run::resume(bytes, device, memory_limit as u64).map(Training).map_err(sentence)
    }
    /// Trains for about so many milliseconds; at least one step, unless the run is finished.
    /// Returns what is new, as JSON.
    ///
    /// # Errors
    /// If memory is exhausted, or the loss is not finite.
    pub async fn train_for(&mut self, milliseconds: f64) -> Result<String, JsError> {
        let time = Duration::from_secs_f64(milliseconds / 1000.0);
        let progress = self.0.train_for(time).await.map_err(sentence)?;
        Ok(progress.to_string())
    }
    /// The state, from which it can be resumed bit for bit.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn save(&self) -> Result<Vec<u8>, JsError> {
        self.0.save().map_err(sentence)
    }
    /// The settings, as JSON.
    pub fn settings(&self) -> String {
        self.0.settings().to_string()
    }
    /// The SHA-256 of the weights.
    ///
    /// # Errors
    /// If the run has not begun.
    pub fn hash(&self) -> Result<String, JsError> {
        self.0.hash().map_err(sentence)
    }
    /// The test images that the network reads wrongly, as JSON: `[{ "pixels", "label", "read",
    /// "probability" }]`.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub async fn wrong(&self) -> Result<String, JsError> {
        Ok(self.0.wrong().await.map_err(sentence)?.to_string())
    }
    /// The probability of each digit for an image: 64 numbers from 0 to 1, row after row.
    ///
    /// # Errors
    /// If they are not 64, or memory is exhausted.
    pub async fn read(&self, pixels: Vec<f32>) -> Result<Vec<f32>, JsError> {
        self.0.read(pixels).await.map_err(sentence)
    }
}

fn sentence(e: Error) -> JsError {
    JsError::new(e.message())
}
