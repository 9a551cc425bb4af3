// Credentials of munge, which every host of a cluster shares the key of: what is put into one can
// be taken out by processes of this user only, and whoever does knows that this user has made it.
// The library is loaded when it is needed, and need not be there.
//
// Thread: any. Failure: kUnavailable without library or daemon; kAuth for a credential of others.
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::rendezvous {

base::Result<void> munge_is_there();
base::Result<std::string> munge_encode(base::ByteSpan secret);  // for this user alone
// Of this user, fresh, and never decoded before on this host.
base::Result<base::Bytes> munge_decode(const std::string& credential);

}  // namespace hv::rendezvous
