package ignition

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/coreos/vcontext/report"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Marshal returns a configuration as JSON of a spec version, "3.0.0" to Newest.
// The error names every fault with its field path: the faults and warnings of
// that version's own parser, and each field that the version lacks.
func Marshal(c Config, version string) ([]byte, error) {
	if err := checkSources(c.Merge); err != nil {
		return nil, fmt.Errorf("ignition %s: %w", version, err)
	}
	return encode(c.types(DataURL), c.types(noData), version)
}

// encode returns a configuration. It first checks with the version's parser the
// skeleton, which is the same without the bytes of the files.
func encode(cfg, skeleton types.Config, version string) ([]byte, error) {
	d, ok := dialectOf(version)
	if !ok {
		return nil, fmt.Errorf("ignition %s: unknown spec version, known are %s", version, strings.Join(Versions(), ", "))
	}
	cfg.Ignition.Version, skeleton.Ignition.Version = version, version
	bones, err := compact(skeleton)
	if err != nil {
		return nil, fmt.Errorf("ignition %s: %w", version, err)
	}
	rpt, err := d.check(bones)
	if err := faults(rpt, err); err != nil {
		return nil, fmt.Errorf("ignition %s: %w", version, err)
	}
	return compact(cfg)
}

// Faults lists what is wrong with a configuration.
type Faults []Fault

// Fault is one of them.
type Fault struct {
	// Field is the path of the field, or Whole.
	Field string
	Why   string
}

// Whole stands for a path where the configuration cannot be read at all.
const Whole = "$"

func (f Fault) Error() string { return f.Field + ": " + f.Why }

func (f Faults) Error() string {
	lines := make([]string, 0, len(f))
	for _, fault := range f {
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "; ")
}

// faults returns the entries of a parser's report as one error, a Faults.
// Warnings count: our own output has no reason to cause one.
func faults(rpt report.Report, err error) error {
	var list Faults
	for _, e := range rpt.Entries {
		if e.Kind != report.Info {
			list = append(list, Fault{Field: strings.TrimPrefix(e.Context.String(), Whole+"."), Why: e.Message})
		}
	}
	slices.SortFunc(list, func(a, b Fault) int { return cmp.Compare(a.Error(), b.Error()) })
	if list = slices.Compact(list); len(list) > 0 {
		return list
	}
	return err
}

// noData stands for a file's contents when only the structure is checked: the
// result of DataURL is valid by itself, and parsing it would take most of the
// time.
func noData([]byte) string { return "data:," }

// Canonical returns a configuration as JSON of Newest, without fields that mean
// nothing. The same values give the same bytes.
func Canonical(cfg types.Config) ([]byte, error) {
	cfg.Ignition.Version = Newest
	return compact(cfg)
}

func (c Config) types(contents func([]byte) string) types.Config {
	var out types.Config
	for _, f := range sorted(c.Files, func(f state.File) string { return f.Path }) {
		out.Storage.Files = append(out.Storage.Files, fileType(f, contents))
	}
	for _, d := range sorted(c.Directories, func(d Directory) string { return d.Path }) {
		out.Storage.Directories = append(out.Storage.Directories, directoryType(d))
	}
	for _, l := range sorted(c.Links, func(l Link) string { return l.Path }) {
		out.Storage.Links = append(out.Storage.Links, linkType(l))
	}
	for _, u := range sorted(c.Units, func(u Unit) string { return u.Name }) {
		out.Systemd.Units = append(out.Systemd.Units, unitType(u))
	}
	for _, u := range sorted(c.Users, func(u User) string { return u.Name }) {
		out.Passwd.Users = append(out.Passwd.Users, userType(u))
	}
	for _, s := range c.Merge {
		addSource(&out, s)
	}
	return out
}

func sorted[T any](list []T, key func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

func fileType(f state.File, contents func([]byte) string) types.File {
	return types.File{
		Node: types.Node{Path: f.Path, Overwrite: new(true)},
		FileEmbedded1: types.FileEmbedded1{
			Contents: types.Resource{Source: new(contents(f.Data))},
			Mode:     new(int(f.Perm().Perm())),
		},
	}
}

// DefaultDirectoryMode is the mode of a directory without one.
const DefaultDirectoryMode fs.FileMode = 0o755

func directoryType(d Directory) types.Directory {
	mode := cmp.Or(d.Mode.Perm(), DefaultDirectoryMode)
	return types.Directory{
		Node:               types.Node{Path: d.Path},
		DirectoryEmbedded1: types.DirectoryEmbedded1{Mode: new(int(mode))},
	}
}

func linkType(l Link) types.Link {
	return types.Link{
		Node:          types.Node{Path: l.Path, Overwrite: new(true)},
		LinkEmbedded1: types.LinkEmbedded1{Target: new(l.Target), Hard: new(false)},
	}
}

func unitType(u Unit) types.Unit {
	out := types.Unit{Name: u.Name}
	if u.Contents != "" {
		out.Contents = new(u.Contents)
	}
	if u.Enabled {
		out.Enabled = new(true)
	}
	if u.Masked {
		out.Mask = new(true)
	}
	for _, d := range sorted(u.Dropins, func(d Dropin) string { return d.Name }) {
		out.Dropins = append(out.Dropins, types.Dropin{Name: d.Name, Contents: new(d.Contents)})
	}
	return out
}

func userType(u User) types.PasswdUser {
	out := types.PasswdUser{Name: u.Name}
	for _, key := range u.SSHAuthorizedKeys {
		out.SSHAuthorizedKeys = append(out.SSHAuthorizedKeys, types.SSHAuthorizedKey(key))
	}
	for _, g := range u.Groups {
		out.Groups = append(out.Groups, types.Group(g))
	}
	return out
}

func addSource(out *types.Config, s Source) {
	res := types.Resource{Source: new(s.URL)}
	if s.Token != "" {
		res.HTTPHeaders = types.HTTPHeaders{{Name: "Authorization", Value: new("Bearer " + s.Token)}}
	}
	out.Ignition.Config.Merge = append(out.Ignition.Config.Merge, res)
	if len(s.CA) == 0 {
		return
	}
	ca := types.Resource{Source: new(DataURL(s.CA))}
	known := slices.ContainsFunc(out.Ignition.Security.TLS.CertificateAuthorities, func(r types.Resource) bool {
		return *r.Source == *ca.Source
	})
	if !known {
		out.Ignition.Security.TLS.CertificateAuthorities = append(out.Ignition.Security.TLS.CertificateAuthorities, ca)
	}
}

// checkSources refuses a token that would travel in clear text.
func checkSources(sources []Source) error {
	var errs []error
	for i, s := range sources {
		u, err := url.Parse(s.URL)
		switch {
		case err != nil || u.Host == "":
			errs = append(errs, fmt.Errorf("ignition.config.merge.%d.source: not a URL with a host", i))
		case s.Token != "" && u.Scheme != "https":
			errs = append(errs, fmt.Errorf("ignition.config.merge.%d.source: a token needs https, not %s", i, u.Scheme))
		}
	}
	return errors.Join(errs...)
}

// DataURL returns data as a data: URL, the form of a file's contents.
func DataURL(data []byte) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(data)
}
