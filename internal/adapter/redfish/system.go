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

// system is the part of a controller's description of a system that this
// package needs. The library's own type has some hundred fields, and refuses
// the whole description if one field has another JSON type than the standard
// says: vendors change types with each year's firmware. Here a field of another
// type counts as missing.
type system struct {
	power        PowerState
	uuid         string
	serial, sku  string
	manufacturer string
	model        string
	// reset is the path of the action. actionInfo is the path at which the
	// reset types are listed if offered is empty.
	reset, actionInfo string
	offered           []ResetType
	// etag identifies the state that was read, for services that change nothing
	// without it.
	etag string
}

// fields are the properties of a JSON object, each of which may have any type.
type fields map[string]json.RawMessage

// errNoObject is returned if an answer is JSON, but not an object.
var errNoObject = problem{Protocol, "its answer is not a Redfish resource"}

// parse reads an object. It ignores what follows the object, and byte order
// marks before it.
func parse(body []byte) (fields, error) {
	var f fields
	err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))).Decode(&f)
	if _, syntax := err.(*json.UnmarshalTypeError); syntax || err == nil && f == nil { //nolint:errorlint // json returns it bare
		return nil, errNoObject
	}
	return f, err
}

// text returns a property that is a string; one of another type counts as
// missing. A power state must be spelled exactly, so nothing else is converted
// to a string.
func (f fields) text(name string) string {
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return ""
	}
	return s
}

// label returns a property that names something: a number is returned as its
// digits.
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

// list returns the elements of a property that is a list, or a single element
// that should be in a list.
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

// resets returns the strings in a list of reset types.
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

// link returns the path in a property: an object with @odata.id, or the path
// itself.
func (f fields) link(name string) string {
	if o := f.object(name); o != nil {
		return pathOf(o.text("@odata.id"))
	}
	return pathOf(f.text(name))
}

// pathOf returns the path of a link. A service that writes complete URLs may
// use another name for itself. The account is never sent elsewhere, so only the
// path counts.
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

// systemOf interprets an object as a system, and reports whether it is one.
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

// namedIn returns the reset types that an ActionInfo resource lists.
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

// read fetches a system and makes sure that it is the intended one.
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

// types returns the reset types of a system, empty if it lists none.
func (c *Client) types(ctx context.Context, s system) ([]ResetType, error) {
	if len(s.offered) > 0 || s.actionInfo == "" {
		return s.offered, nil
	}
	f, _, err := c.get(ctx, s.actionInfo)
	if err != nil && status(err) == 0 && reasonOf(err) == "" {
		return nil, err // it does not answer at all
	}
	return namedIn(f), nil // a list that cannot be read counts as empty
}

// post asks for a reset. An answer is no proof, so it is not evaluated: only
// the power state afterwards counts.
//
// The first request names no state: the state may have changed since it was
// read, and iDRAC10 refuses a request that names one (412). Others, of AMI's
// family, refuse a request that names none (412, 428).
// that names none (412, 428).
func (c *Client) post(ctx context.Context, s system, t ResetType) error {
	if s.reset == "" {
		return problem{Unsupported, "its system has no action " + resetAction[1:] + ", so its power cannot be switched"}
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

// list returns the paths of all systems. It does not trust the counts that a
// service gives.
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
