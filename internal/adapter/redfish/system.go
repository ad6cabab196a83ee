package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stmcginnis/gofish"
)

// system is what a controller says of one of its systems, as far as anything
// here needs it. The library's own type has some hundred fields, and one of
// another JSON type than the standard's makes it refuse the whole: vendors
// change types in each year's firmware. A field that is odd here is as one that
// is not there.
type system struct {
	power        PowerState
	uuid         string
	serial, sku  string
	manufacturer string
	model        string
	// reset is the path of the action, actionInfo where its types are named if
	// offered does not name them.
	reset, actionInfo string
	offered           []ResetType
	// etag names the state that was read, for services that change nothing
	// without it.
	etag string
}

// fields are the properties of a JSON object, each of which may be of any type.
type fields map[string]json.RawMessage

// errNoObject says that an answer is JSON, but nothing that has properties.
var errNoObject = problem{Protocol, "it answers with something that is no resource of Redfish"}

// parse reads an object. What follows it is passed over, as are marks of byte
// order before it.
func parse(body []byte) (fields, error) {
	var f fields
	err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))).Decode(&f)
	if _, syntax := err.(*json.UnmarshalTypeError); syntax || err == nil && f == nil { //nolint:errorlint // json returns it bare
		return nil, errNoObject
	}
	return f, err
}

// text is a property that is a text; one of another type is none. A power state
// must be spelled exactly, so nothing is made a text of that is not one.
func (f fields) text(name string) string {
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return ""
	}
	return s
}

// label is a property that names something: a number is as good as its digits.
func (f fields) label(name string) string {
	var n json.Number
	if s := f.text(name); s != "" {
		return strings.TrimSpace(s)
	}
	if json.Unmarshal(f[name], &n) != nil {
		return ""
	}
	return n.String()
}

func (f fields) object(name string) fields {
	var o fields
	if json.Unmarshal(f[name], &o) != nil {
		return nil
	}
	return o
}

// list are the elements of a property that is a list, or that one element which
// should be in a list.
func (f fields) list(name string) []json.RawMessage {
	var l []json.RawMessage
	if json.Unmarshal(f[name], &l) == nil {
		return l
	}
	if f[name] == nil {
		return nil
	}
	return []json.RawMessage{f[name]}
}

// resets are the texts of a list of reset types.
func (f fields) resets(name string) []ResetType {
	var out []ResetType
	for _, raw := range f.list(name) {
		var s string
		if json.Unmarshal(raw, &s) == nil && s != "" {
			out = append(out, ResetType(s))
		}
	}
	return out
}

// link is the path that a property leads to: an object with @odata.id, or the
// path itself.
func (f fields) link(name string) string {
	if o := f.object(name); o != nil {
		return pathOf(o.text("@odata.id"))
	}
	return pathOf(f.text(name))
}

// pathOf is the path of a link. Who writes whole addresses into links may mean
// another name of itself: the account is never taken elsewhere, so only the path
// counts.
func pathOf(link string) string {
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || u.Path == "" {
		return ""
	}
	if !strings.HasPrefix(u.Path, "/") {
		return "/" + u.Path
	}
	return u.RequestURI()
}

const resetAction = "#ComputerSystem.Reset"

// systemOf makes sense of a system, and reports whether it is one.
func systemOf(f fields) (s system, ok bool) {
	action := f.object("Actions").object(resetAction)
	s = system{
		power: PowerState(f.text("PowerState")),
		uuid:  f.label("UUID"), serial: f.label("SerialNumber"), sku: f.label("SKU"),
		manufacturer: f.label("Manufacturer"), model: f.label("Model"),
		reset:      pathOf(action.text("target")),
		actionInfo: action.link("@Redfish.ActionInfo"),
		offered:    action.resets("ResetType@Redfish.AllowableValues"),
	}
	return s, f.label("@odata.id") != "" || f.label("Id") != ""
}

// namedIn are the reset types that an ActionInfo resource names.
func namedIn(f fields) []ResetType {
	for _, raw := range f.list("Parameters") {
		var p fields
		if json.Unmarshal(raw, &p) == nil && p.text("Name") == "ResetType" {
			return p.resets("AllowableValues")
		}
	}
	return nil
}

// get reads a resource.
func (c *Client) get(ctx context.Context, path string) (fields, http.Header, error) {
	res, err := c.request(ctx, func(a *gofish.APIClient) (*http.Response, error) { return a.Get(path) })
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	f, err := parse(body)
	return f, res.Header, err
}

// read fetches a system and makes sure that it is the one that is meant.
func (c *Client) read(ctx context.Context, path string) (system, error) {
	f, header, err := c.get(ctx, path)
	if err != nil {
		return system{}, err
	}
	s, ok := systemOf(f)
	if !ok {
		return system{}, problem{Protocol, "it answers " + path + " with something that is no system"}
	}
	s.etag = header.Get("ETag")
	if err := c.endpoint.meant(s.uuid, s.serial, s.sku); err != nil {
		return system{}, err
	}
	c.last.Store(&s)
	return s, nil
}

// types are the reset types of a system, empty where it names none.
func (c *Client) types(ctx context.Context, s system) ([]ResetType, error) {
	if len(s.offered) > 0 || s.actionInfo == "" {
		return s.offered, nil
	}
	f, _, err := c.get(ctx, s.actionInfo)
	if err != nil && status(err) == 0 && reasonOf(err) == "" {
		return nil, err // it does not answer at all
	}
	return namedIn(f), nil // a list that cannot be read is one that names none
}

// post asks for a reset. An answer is no proof, so it is not read: what counts
// is the power state afterwards.
//
// No state is named at first: it may have changed since it was read, and iDRAC10
// refuses a request that names one (412). Others, of AMI's family, refuse one
// that names none (412, 428).
func (c *Client) post(ctx context.Context, s system, t ResetType) error {
	if s.reset == "" {
		return problem{Unsupported, "its system has no action " + resetAction[1:] + ", so it cannot be switched"}
	}
	err := c.send(ctx, s.reset, t, nil)
	if code := status(err); s.etag != "" && (code == http.StatusPreconditionFailed || code == http.StatusPreconditionRequired) {
		return c.send(ctx, s.reset, t, map[string]string{"If-Match": s.etag})
	}
	return err
}

func (c *Client) send(ctx context.Context, path string, t ResetType, header map[string]string) error {
	res, err := c.request(ctx, func(a *gofish.APIClient) (*http.Response, error) {
		return a.PostWithHeaders(path, map[string]ResetType{"ResetType": t}, header)
	})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
	return res.Body.Close()
}

// list returns the paths of all systems. Counts that a service gives are not
// believed.
func (c *Client) list(ctx context.Context) ([]string, error) {
	var paths []string
	next := systemsPath
	for range maxPages {
		page, _, err := c.get(ctx, next)
		if err != nil {
			return nil, err
		}
		for _, raw := range page.list("Members") {
			if path := (fields{"": raw}).link(""); path != "" {
				paths = append(paths, path)
			}
		}
		if next = page.link("Members@odata.nextLink"); next == "" {
			break
		}
	}
	return paths, nil
}
