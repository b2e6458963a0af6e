//! The calls into the C client that its Rust wrapper does not offer, or not safely.
//!
//! Invariant: this is the only unsafe code of the workspace. Every pointer comes from a value
//! that the caller still borrows and is never kept; a slice that is returned borrows it too.
#![expect(
    unsafe_code,
    reason = "the wrapper exposes neither the message status, nor the live configuration, nor what \
              a principal may do with a topic, and its header iteration panics at a name that is \
              not UTF-8"
)]

use crate::classify::MessageStatus;
use rdkafka::bindings::{
    rd_kafka_AclOperation_t, rd_kafka_AdminOptions_destroy, rd_kafka_AdminOptions_new,
    rd_kafka_AdminOptions_set_include_authorized_operations,
    rd_kafka_AdminOptions_set_request_timeout, rd_kafka_DescribeTopics,
    rd_kafka_DescribeTopics_result_topics, rd_kafka_TopicCollection_destroy,
    rd_kafka_TopicCollection_of_topic_names, rd_kafka_TopicDescription_authorized_operations,
    rd_kafka_TopicDescription_error, rd_kafka_admin_op_t, rd_kafka_conf, rd_kafka_conf_get,
    rd_kafka_conf_res_t, rd_kafka_error_code, rd_kafka_error_destroy,
    rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_event_error,
    rd_kafka_header_get_last, rd_kafka_headers_t, rd_kafka_message_headers,
    rd_kafka_message_status, rd_kafka_msg_status_t, rd_kafka_queue_destroy, rd_kafka_queue_new,
    rd_kafka_queue_poll, rd_kafka_resp_err_t,
};
use rdkafka::client::{Client, ClientContext};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::ffi::{CStr, CString, c_int};
use std::time::Duration;

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

/// Something of the C client's that this value alone owns.
struct Owned<T> {
    pointer: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Takes what a constructor returned, unless it returned nothing.
    fn take(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        (!pointer.is_null()).then_some(Self { pointer, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer is the constructor's, nobody else has it, and this happens once.
        unsafe { (self.destroy)(self.pointer) }
    }
}

/// Whether the client's own principal may write to a topic; `None` when the broker does not say.
///
/// # Errors
/// The client's code, the topic's own included.
pub(crate) fn may_write<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    within: Duration,
) -> Result<Option<bool>, Code> {
    let name = CString::new(topic).map_err(|_| Code::InvalidArgument)?;
    let mut names = [name.as_ptr()];
    let millis = c_int::try_from(within.as_millis().max(1)).unwrap_or(c_int::MAX);
    // SAFETY: one name, which ends with a zero and lives for the call, which copies it.
    let topics = unsafe { rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1) };
    let topics = Owned::take(topics, rd_kafka_TopicCollection_destroy).ok_or(Code::Fail)?;
    let kind = rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    // SAFETY: the client outlives the options.
    let options = unsafe { rd_kafka_AdminOptions_new(client.native_ptr(), kind) };
    let options = Owned::take(options, rd_kafka_AdminOptions_destroy).ok_or(Code::Fail)?;
    // SAFETY: the options are alive; without a buffer no text is written.
    let set = unsafe {
        rd_kafka_AdminOptions_set_request_timeout(options.pointer, millis, std::ptr::null_mut(), 0)
    };
    if set != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(set.into());
    }
    // SAFETY: the options are alive; an error is the caller's.
    let error =
        unsafe { rd_kafka_AdminOptions_set_include_authorized_operations(options.pointer, 1) };
    if let Some(error) = Owned::take(error, rd_kafka_error_destroy) {
        // SAFETY: the error is alive.
        return Err(unsafe { rd_kafka_error_code(error.pointer) }.into());
    }
    // SAFETY: the client outlives the queue.
    let queue = unsafe { rd_kafka_queue_new(client.native_ptr()) };
    let queue = Owned::take(queue, rd_kafka_queue_destroy).ok_or(Code::Fail)?;
    // SAFETY: all four are alive; the call copies what it needs, and the answer that comes after
    // this queue is gone is dropped by the client.
    unsafe {
        rd_kafka_DescribeTopics(
            client.native_ptr(),
            topics.pointer,
            options.pointer,
            queue.pointer,
        );
    }
    // SAFETY: the queue is alive; the event is the caller's.
    let event = unsafe { rd_kafka_queue_poll(queue.pointer, millis) };
    let event = Owned::take(event, rd_kafka_event_destroy).ok_or(Code::OperationTimedOut)?;
    // SAFETY: the event is alive.
    let failed = unsafe { rd_kafka_event_error(event.pointer) };
    if failed != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(failed.into());
    }
    // SAFETY: the event is alive, and what it holds is its own.
    let result = unsafe { rd_kafka_event_DescribeTopics_result(event.pointer) };
    if result.is_null() {
        return Err(Code::Fail);
    }
    let mut count = 0_usize;
    // SAFETY: the result lives as long as the event, and the out-pointer is valid.
    let described = unsafe { rd_kafka_DescribeTopics_result_topics(result, &raw mut count) };
    if described.is_null() || count != 1 {
        return Err(Code::Fail);
    }
    // SAFETY: a list of one topic, which lives as long as the event.
    let topic = unsafe { *described };
    // SAFETY: as before; the error is the topic's, and may be absent.
    let failed = unsafe {
        let error = rd_kafka_TopicDescription_error(topic);
        (!error.is_null()).then(|| rd_kafka_error_code(error))
    };
    match failed {
        None | Some(rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR) => {}
        Some(code) => return Err(code.into()),
    }
    // SAFETY: as before.
    let operations =
        unsafe { rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count) };
    if operations.is_null() {
        return Ok(None);
    }
    // SAFETY: a list of so many operations, which lives as long as the event. They are read as the
    // numbers that they are, so that one without a name is no trouble.
    let operations = unsafe { std::slice::from_raw_parts(operations.cast::<u32>(), count) };
    let write = rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_WRITE as u32;
    Ok(Some(operations.contains(&write)))
}

/// Every error code that the client library has a name for.
#[cfg(test)]
pub(crate) fn every_error_code() -> Vec<Code> {
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
) -> Result<(), Code> {
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
