//! The three calls into the C client that its Rust wrapper does not offer.
//!
//! Invariant: this is the only unsafe code of the workspace. Every pointer comes from a value
//! that the caller still borrows, is read within the call, and is never kept.
#![expect(
    unsafe_code,
    reason = "the wrapper exposes neither the message status nor the live configuration"
)]

use crate::classify::MessageStatus;
use rdkafka::bindings::{
    rd_kafka_conf, rd_kafka_conf_get, rd_kafka_conf_res_t, rd_kafka_message_status,
    rd_kafka_msg_status_t,
};
use rdkafka::client::{Client, ClientContext};
use rdkafka::message::BorrowedMessage;
use std::ffi::{CStr, CString};

/// What the client knows about the broker having stored a reported message.
pub(crate) fn message_status(message: &BorrowedMessage<'_>) -> MessageStatus {
    // SAFETY: the pointer is that of a live message, borrowed for this call, and the function
    // only reads it.
    let status = unsafe { rd_kafka_message_status(message.ptr()) };
    match status {
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => MessageStatus::NotPersisted,
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => {
            MessageStatus::PossiblyPersisted
        }
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_PERSISTED => MessageStatus::Persisted,
    }
}

/// The value that a running client uses for a property; `None` when it has no such property or
/// no value for it.
pub(crate) fn effective_value<C: ClientContext>(client: &Client<C>, name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    let mut size = 0_usize;
    // SAFETY: the client outlives the call, so its configuration does; a null buffer asks for
    // the size alone.
    let sized = unsafe {
        rd_kafka_conf_get(
            rd_kafka_conf(client.native_ptr()),
            name.as_ptr(),
            std::ptr::null_mut(),
            &raw mut size,
        )
    };
    if sized != rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
        return None;
    }
    // One byte more than asked for, so that the text ends with a zero whatever happens.
    let mut buffer = vec![0_u8; size + 1];
    // SAFETY: as above, and the buffer has the `size` bytes that the function may write.
    let read = unsafe {
        rd_kafka_conf_get(
            rd_kafka_conf(client.native_ptr()),
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if read != rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&buffer).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// Every error code that the client library has a name for.
#[cfg(test)]
pub(crate) fn every_error_code() -> Vec<rdkafka::types::RDKafkaErrorCode> {
    use rdkafka::bindings::{rd_kafka_err_desc, rd_kafka_get_err_descs};

    let mut table: *const rd_kafka_err_desc = std::ptr::null();
    let mut length = 0_usize;
    // SAFETY: both out-pointers are valid for the call.
    unsafe { rd_kafka_get_err_descs(&raw mut table, &raw mut length) };
    (0..length)
        .filter_map(|index| {
            // SAFETY: the function states a static table of `length` entries, some of them blank.
            let (name, code) = unsafe {
                let entry = table.add(index);
                ((*entry).name, &raw const (*entry).code)
            };
            // SAFETY: an entry with a name holds one of the declared codes.
            (!name.is_null()).then(|| unsafe { *code }.into())
        })
        .collect()
}
