package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ID is an etcd identifier: hexadecimal without a prefix, as etcd prints it.
type ID uint64

// String returns the identifier as etcd prints it.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText writes the identifier as etcd prints it.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads 1 to 16 hexadecimal digits that are not all zero.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not an etcd identifier: want hexadecimal digits, not zero", text)
	}
	*id = ID(n)
	return nil
}

// TLS names the PEM files of an identity. No key is ever in a Request itself.
type TLS struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Request names the member whose vote is cast, and the one for which. It is the
// program's whole input.
type Request struct {
	// Evidence names the fence that allows this take-over. It is repeated in
	// the result and must not be empty. The program cannot check it.
	Evidence string `json:"evidence"`
	Cluster  ID     `json:"cluster"`
	// Target is the fenced member, Survivor the one that goes on.
	Target   ID `json:"target"`
	Survivor ID `json:"survivor"`
	// PeerURL and ClientURL are the URLs of the survivor.
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	// TLS is needed if a URL is https: the survivor's own peer certificate.
	TLS TLS `json:"tls"`
	// ClientTLS is for ClientURL, if that needs another identity.
	ClientTLS TLS `json:"clientTLS"`
	// NoNudge makes the run wait for the survivor's own election timeout.
	NoNudge bool `json:"noNudge,omitempty"`
	// LeastIndex is an index of the Raft log that the survivor is known to have
	// reached, if any is known.
	LeastIndex uint64 `json:"leastIndex,omitempty"`
	// DeadlineMS bounds the whole run; the default is 30,000.
	DeadlineMS int `json:"deadlineMS,omitempty"`
	// PeerProbeMS is the time in which the fenced member can show that it
	// lives, before its vote is cast; the default is 50.
	PeerProbeMS int `json:"peerProbeMS,omitempty"`
}

const (
	defaultDeadline  = 30 * time.Second
	defaultPeerProbe = 50 * time.Millisecond
)

// Read reads a request, fills in the defaults and checks it. The error lists
// every mistake, each with its field.
func Read(r io.Reader) (Request, error) {
	var req Request
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf("read the request: %w", err)
	}
	if dec.More() {
		return req, errors.New("read the request: there is more than one value")
	}
	req.defaults()
	return req, errors.Join(req.mistakes()...)
}

func (r *Request) defaults() {
	// etcd's own packages take no path, not even this one.
	r.PeerURL, r.ClientURL = strings.TrimSuffix(r.PeerURL, "/"), strings.TrimSuffix(r.ClientURL, "/")
	if r.DeadlineMS == 0 {
		r.DeadlineMS = int(defaultDeadline / time.Millisecond)
	}
	if r.PeerProbeMS == 0 {
		r.PeerProbeMS = int(defaultPeerProbe / time.Millisecond)
	}
	if r.ClientTLS == (TLS{}) {
		r.ClientTLS = r.TLS
	}
}

func (r *Request) mistakes() []error {
	var errs []error
	require := func(field string, ok bool, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", field, want))
		}
	}
	require("evidence", r.Evidence != "", "name the fence that allows this")
	require("cluster", r.Cluster != 0, "must be given")
	require("target", r.Target != 0, "must be given")
	require("survivor", r.Survivor != 0, "must be given")
	require("deadlineMS", r.DeadlineMS > 0, "must be positive")
	require("peerProbeMS", r.PeerProbeMS > 0, "must be positive")
	return append(errs, append(endpoint("peerURL", r.PeerURL, "tls", r.TLS), endpoint("clientURL", r.ClientURL, "clientTLS", r.ClientTLS)...)...)
}

// endpoint checks a URL, and that an https URL comes with an identity.
func endpoint(field, text, tlsField string, id TLS) []error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Port() == "" || u.Path != "" {
		return []error{fmt.Errorf("%s: %q is not a URL such as https://192.0.2.11:2380", field, text)}
	}
	switch u.Scheme {
	case "http":
		return nil
	case "https":
		if id.CA == "" || id.Cert == "" || id.Key == "" {
			return []error{fmt.Errorf("%s: ca, cert and key are needed for %s", tlsField, field)}
		}
		return nil
	default:
		return []error{fmt.Errorf("%s: want https or http, not %q", field, u.Scheme)}
	}
}
