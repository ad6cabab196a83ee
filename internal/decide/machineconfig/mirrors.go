package machineconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/holdfast/holdfast/internal/model/state"
)

// mirrorsFile names the mirrors of a registry, in its folder.
const mirrorsFile = "hosts.toml"

// registryName is the name of a registry as a folder: containerd looks for
// HOST, HOST:PORT and HOST_PORT_, and for _default.
var registryName = regexp.MustCompile(`^(_default|(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5}|_[0-9]{1,5}_)?)$`)

// mirrors checks a file below state.MirrorsFolder. containerd logs what it cannot read,
// ignores the whole file and asks the registry itself (docs/facts/life.md, L-M41).
// Nothing here tells a value: headers and URLs may hold credentials.
func (d *decoder) mirrors(field, file string, data []byte) {
	rest, below := strings.CutPrefix(file, state.MirrorsFolder)
	if !below {
		return
	}
	folder, name, deep := strings.Cut(rest, "/")
	at := strings.TrimSuffix(field, ".contents") + ".path"
	switch {
	case path.Ext(file) == ".toml" && (!deep || name != mirrorsFile):
		d.fault(at, "containerd does not read %s: in the folder of a registry it reads %s", file, mirrorsFile)
		return
	case deep && !registryName.MatchString(folder):
		d.fault(at, "%q is not the name of a registry, as HOST or HOST:PORT", folder)
	}
	if name != mirrorsFile {
		return
	}
	m := mirrorFile{fault: func(key, format string, args ...any) {
		d.fault(strings.TrimSuffix(field+": "+key, ": "), format, args...)
	}}
	m.check(data)
}

// MirrorFile is the path of the file with the mirrors of a registry.
func MirrorFile(registry string) string {
	return state.MirrorsFolder + registry + "/" + mirrorsFile
}

// MirrorFaults says what keeps containerd from reading the file with the mirrors of a
// registry, and nothing that the file holds.
func MirrorFaults(data []byte) []string {
	var out []string
	mirrorFile{fault: func(key, format string, args ...any) {
		out = append(out, strings.TrimPrefix(key+": ", ": ")+fmt.Sprintf(format, args...))
	}}.check(data)
	return out
}

// mirrorFile checks one hosts.toml.
type mirrorFile struct {
	// fault reports a mistake at a key; the empty one is the whole file.
	fault func(key, format string, args ...any)
}

func (m mirrorFile) check(data []byte) {
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		where := ""
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := wrong.Position()
			where = fmt.Sprintf("line %d, column %d: ", row, column)
		}
		m.fault("", "%scannot be read as TOML: something is written wrong, or stands there twice", where)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch key {
		case "server":
			if text, ok := all[key].(string); !ok || text != "" {
				m.url(key, all[key])
			}
		case "host":
			m.hosts(all[key], tables(data))
		default:
			m.setting(key, key, all[key])
		}
	}
}

// hosts checks the mirrors. containerd takes their order from the tables of the file,
// and does not see one that is written in another form.
func (m mirrorFile) hosts(value any, order []string) {
	hosts, ok := value.(map[string]any)
	if !ok {
		m.fault("host", `is not a table: write [host."https://mirror.example"]`)
		return
	}
	for i, name := range slices.Sorted(maps.Keys(hosts)) {
		key := fmt.Sprintf("host.%q", name)
		if !plain(name) {
			key = fmt.Sprintf("host %d by name", i+1)
		}
		m.url(key, name)
		if !slices.Contains(order, name) {
			m.fault(key, `containerd sees no mirror that has no table of its own: write [host."https://mirror.example"]`)
		}
		settings, ok := hosts[name].(map[string]any)
		if !ok {
			m.fault(key, "is not a table")
			continue
		}
		for _, s := range slices.Sorted(maps.Keys(settings)) {
			m.setting(key+"."+s, s, settings[s])
		}
	}
}

// plain reports whether a text can hold no account and no query, so that it may be
// told.
func plain(text string) bool { return !strings.ContainsAny(text, "@?#") }

// tables returns the names of the mirrors that have a table of their own.
func tables(data []byte) []string {
	var out []string
	p := unstable.Parser{}
	for p.Reset(data); p.NextExpression(); {
		e := p.Expression()
		if e.Kind != unstable.Table {
			continue
		}
		var parts []string
		for it := e.Key(); it.Next(); {
			parts = append(parts, string(it.Node().Data))
		}
		if len(parts) > 1 && parts[0] == "host" {
			out = append(out, parts[1])
		}
	}
	return out
}

// url checks the address of a registry. containerd reads one that does not begin with
// http as https, and another scheme as the name of a host.
func (m mirrorFile) url(key string, value any) {
	text, ok := value.(string)
	if ok && !strings.HasPrefix(text, "http") && !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), " /\\"):
		m.fault(key, "is not the URL of a registry, as https://registry.example:5000")
	case u.User != nil:
		m.fault(key, "has an account, which containerd ignores; write a header, or a pull secret")
	case u.RawQuery != "" || u.Fragment != "":
		m.fault(key, "has a query or a fragment, which containerd ignores")
	}
}

// capabilities are what a mirror may be asked for.
var capabilities = []string{"pull", "resolve", "push", "referrers"}

// setting checks one setting of a mirror, or of the registry itself.
func (m mirrorFile) setting(key, name string, value any) {
	switch name {
	case "capabilities":
		list, ok := texts(value)
		if !ok || slices.ContainsFunc(list, func(c string) bool { return !slices.Contains(capabilities, strings.ToLower(c)) }) {
			m.fault(key, "is not a list of %s", strings.Join(capabilities, ", "))
		}
	case "ca":
		if !isFile(value) && !allFiles(value) {
			m.fault(key, "is neither the path of a file nor a list of such")
		}
	case "client":
		if !isClient(value) {
			m.fault(key, "is neither the path of a file nor a list of such, or of pairs of certificate and key")
		}
	case "skip_verify", "override_path":
		if _, ok := value.(bool); !ok {
			m.fault(key, "is neither true nor false, without quotes")
		}
	case "dial_timeout":
		text, _ := value.(string)
		if limit, err := time.ParseDuration(text); err != nil || limit <= 0 {
			m.fault(key, `is not a time as "3s", in quotes`)
		}
	case "header":
		m.header(key, value)
	default:
		m.fault(key, "containerd knows no such key")
	}
}

// headerName is a name of a header, and headerValue what may stand there.
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

func (m mirrorFile) header(key string, value any) {
	table, ok := value.(map[string]any)
	if !ok {
		m.fault(key, "is not a table of headers")
		return
	}
	for i, name := range slices.Sorted(maps.Keys(table)) {
		at := key + "." + name
		if !headerName.MatchString(name) {
			m.fault(fmt.Sprintf("%s, header %d by name", key, i+1), "is not the name of a header")
			continue
		}
		list, ok := texts(table[name])
		if text, one := table[name].(string); one {
			list, ok = []string{text}, true
		}
		if !ok || slices.ContainsFunc(list, func(v string) bool { return !headerValue.MatchString(v) }) {
			m.fault(at, "is neither the text of a header nor a list of such")
		}
	}
}

func texts(value any) (out []string, ok bool) {
	list, ok := value.([]any)
	for _, one := range list {
		text, is := one.(string)
		out, ok = append(out, text), ok && is
	}
	return out, ok
}

func isFile(value any) bool {
	text, ok := value.(string)
	return ok && text != "" && !strings.ContainsRune(text, 0)
}

func allFiles(value any) bool {
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(one any) bool { return !isFile(one) })
}

func isClient(value any) bool {
	list, ok := value.([]any)
	if !ok {
		return isFile(value)
	}
	for _, one := range list {
		pair, _ := one.([]any)
		if !isFile(one) && (len(pair) != 2 || !allFiles(one)) {
			return false
		}
	}
	return true
}

// hasCredentials reports whether a file with mirrors has headers: they are there for
// credentials.
func hasCredentials(f *types.File, data []byte) bool {
	if !strings.HasPrefix(f.Path, state.MirrorsFolder) || path.Base(f.Path) != mirrorsFile {
		return false
	}
	var all struct {
		Header map[string]any `toml:"header"`
		Host   map[string]struct {
			Header map[string]any `toml:"header"`
		} `toml:"host"`
	}
	if toml.Unmarshal(data, &all) != nil {
		return false // it was refused
	}
	found := len(all.Header) > 0
	for _, h := range all.Host {
		found = found || len(h.Header) > 0
	}
	return found
}
