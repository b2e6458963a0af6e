//! The calls into the C client that its Rust wrapper does not offer, or not safely.
//!
//! Invariant: this is the only unsafe code of the workspace. Every pointer comes from a value
//! that the caller still borrows and is never kept; a slice that is returned borrows it too.
#![expect(
    unsafe_code,
    reason = "the wrapper exposes neither the message status nor the live configuration, and its \
              header iteration panics at a name that is not UTF-8"
)]

use crate::classify::MessageStatus;
use rdkafka::bindings::{
    rd_kafka_conf, rd_kafka_conf_get, rd_kafka_conf_res_t, rd_kafka_header_get_last,
    rd_kafka_headers_t, rd_kafka_message_headers, rd_kafka_message_status, rd_kafka_msg_status_t,
    rd_kafka_resp_err_t,
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

/// The value of the message's last header of this name; `None` when there is none or its value is
/// null. Names of other headers are not looked at, whatever bytes they have.
pub(crate) fn last_header<'m>(message: &'m BorrowedMessage<'_>, name: &str) -> Option<&'m [u8]> {
    let name = CString::new(name).ok()?;
    let mut headers: *mut rd_kafka_headers_t = std::ptr::null_mut();
    // SAFETY: the pointer is that of a live message, borrowed for longer than the call, and the
    // out-pointer is valid; the list stays the message's.
    let found = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut headers) };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || headers.is_null() {
        return None;
    }
    let mut value: *const std::ffi::c_void = std::ptr::null();
    let mut size = 0_usize;
    // SAFETY: the list belongs to the message, the name ends with a zero, and both out-pointers
    // are valid for the call.
    let found =
        unsafe { rd_kafka_header_get_last(headers, name.as_ptr(), &raw mut value, &raw mut size) };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || value.is_null() {
        return None;
    }
    // SAFETY: the value has `size` bytes inside the message's headers, which nothing changes as
    // long as the message is borrowed.
    Some(unsafe { std::slice::from_raw_parts(value.cast(), size) })
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

/// Sends a record with one header, whose name may be any bytes.
#[cfg(test)]
pub(crate) fn send_with_header<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    name: &[u8],
    value: &[u8],
) -> Result<(), rdkafka::types::RDKafkaErrorCode> {
    use rdkafka::bindings::{
        rd_kafka_header_add, rd_kafka_headers_destroy, rd_kafka_headers_new, rd_kafka_producev,
        rd_kafka_vtype_t as Of,
    };

    let topic = CString::new(topic).expect("a topic's name");
    // SAFETY: a new list, which nobody else knows.
    let headers = unsafe { rd_kafka_headers_new(1) };
    // SAFETY: both slices live for the call, which copies them.
    let added = unsafe {
        rd_kafka_header_add(
            headers,
            name.as_ptr().cast(),
            isize::try_from(name.len()).expect("a length"),
            value.as_ptr().cast(),
            isize::try_from(value.len()).expect("a length"),
        )
    };
    assert_eq!(added, rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
    // SAFETY: each tag is followed by an argument of its kind, the topic's name lives for the
    // call, and the list is the client's once the call succeeds.
    let sent = unsafe {
        rd_kafka_producev(
            client.native_ptr(),
            Of::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            Of::RD_KAFKA_VTYPE_HEADERS,
            headers,
            Of::RD_KAFKA_VTYPE_END,
        )
    };
    if sent == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    // SAFETY: the call failed, so the list is still ours and is destroyed once.
    unsafe { rd_kafka_headers_destroy(headers) };
    Err(sent.into())
}
