//! Results of the C functions.
use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::{c_char, c_int};

/// What kind of failure an [`Error`] is: the statuses of weir/base.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    NoMemory,
    Invalid,
    Unsupported,
    Limit,
    Busy,
    Device,
    Internal,
}

/// A failed call: its kind, and weir's own sentence. For [`ErrorKind::NoMemory`] of a pool the sentence is the report of the
/// largest holders and of the changes that would have helped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

/// The result of a call of weir.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error { kind, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.text.trim_end())
    }
}

impl std::error::Error for Error {}

/// The kind of a status; `None` for success.
pub(crate) fn kind_of(status: c_int) -> Option<ErrorKind> {
    Some(match status {
        0 => return None,
        -1 => ErrorKind::NoMemory,
        -2 => ErrorKind::Invalid,
        -3 => ErrorKind::Unsupported,
        -4 => ErrorKind::Limit,
        -5 => ErrorKind::Busy,
        -6 => ErrorKind::Device,
        _ => ErrorKind::Internal,
    })
}

/// A copy of a C string; "" for NULL.
///
/// # Safety
/// `text` is NULL or the start of a C string.
pub(crate) unsafe fn copy_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

/// Turns a status into a result. The sentence is that of the thread's last refusal where the status is a refusal.
pub(crate) fn check(status: c_int) -> Result<()> {
    let kind = match kind_of(status) {
        None => return Ok(()),
        Some(kind) => kind,
    };
    let is_refusal = matches!(kind, ErrorKind::Invalid | ErrorKind::Busy | ErrorKind::Unsupported);
    let sentence = unsafe { copy_text(sys::weir_last_error()) };
    if is_refusal && !sentence.is_empty() {
        return Err(Error::new(kind, sentence));
    }
    Err(Error::new(kind, unsafe { copy_text(sys::weir_status_text(status)) }))
}

/// The text that a function of snprintf's kind writes.
pub(crate) fn written(write: impl Fn(*mut c_char, usize) -> usize) -> String {
    let mut bytes = vec![0u8; 1024];
    loop {
        let length = write(bytes.as_mut_ptr() as *mut c_char, bytes.len());
        if length < bytes.len() {
            bytes.truncate(length);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        bytes.resize(length + 1, 0);
    }
}
