package machineconfig

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The kinds that name mirrors for all hosts.
const (
	DigestMirrorSet = "ImageDigestMirrorSet"
	TagMirrorSet    = "ImageTagMirrorSet"
)

// mirrorEntry is what one set says of one source. field is its path in the object.
type mirrorEntry struct {
	kind, name, field string
	source            string
	mirrors           []string
	// never is true if the source itself is not to be asked.
	never bool
}

func (e *mirrorEntry) object() string { return e.kind + " " + e.name }

func (e *mirrorEntry) mistake(field, format string, args ...any) Mistake {
	return Mistake{e.object(), e.field + field, fmt.Sprintf(format, args...)}
}

// mirrorEntries returns what all sets say, those of digests first, each kind by name.
func mirrorEntries(all Objects) []mirrorEntry {
	var out []mirrorEntry
	add := func(kind, name, list string, i int, source string, mirrors []configv1.ImageMirror, policy configv1.MirrorSourcePolicy) {
		e := mirrorEntry{kind: kind, name: name, field: fmt.Sprintf("spec.%s.%d", list, i), source: source, never: policy == configv1.NeverContactSource}
		for _, m := range mirrors {
			e.mirrors = append(e.mirrors, string(m))
		}
		out = append(out, e)
	}
	for _, o := range slices.SortedFunc(slices.Values(all.DigestMirrors), func(a, b configv1.ImageDigestMirrorSet) int { return cmp.Compare(a.Name, b.Name) }) {
		for i, m := range o.Spec.ImageDigestMirrors {
			add(DigestMirrorSet, o.Name, "imageDigestMirrors", i, m.Source, m.Mirrors, m.MirrorSourcePolicy)
		}
	}
	for _, o := range slices.SortedFunc(slices.Values(all.TagMirrors), func(a, b configv1.ImageTagMirrorSet) int { return cmp.Compare(a.Name, b.Name) }) {
		for i, m := range o.Spec.ImageTagMirrors {
			add(TagMirrorSet, o.Name, "imageTagMirrors", i, m.Source, m.Mirrors, m.MirrorSourcePolicy)
		}
	}
	return out
}

// check refuses what one entry alone cannot have on hosts with containerd, which finds
// mirrors by the registry of an image alone.
func (e *mirrorEntry) check() Mistakes {
	var out Mistakes
	switch {
	case strings.HasPrefix(e.source, "*"):
		out = append(out, e.mistake(".source", "containerd has no mirrors for all hosts of a domain; name each registry"))
	case strings.Contains(e.source, "/"):
		out = append(out, e.mistake(".source", "containerd knows mirrors of a whole registry only, and would ask them for all its images; write the registry alone, as %s", registryOf(e.source)))
	case !registryName.MatchString(e.source) || e.source == "_default":
		out = append(out, e.mistake(".source", "%q is not the name of a registry, as HOST or HOST:PORT", e.source))
	}
	if e.never && len(e.mirrors) == 0 {
		out = append(out, e.mistake(".mirrorSourcePolicy", "without a mirror no image of the registry could be pulled; name a mirror, or leave it out"))
	}
	for i, m := range e.mirrors {
		field := fmt.Sprintf(".mirrors.%d", i)
		if e.never && m == e.source {
			out = append(out, e.mistake(field, "is the source, which mirrorSourcePolicy forbids"))
		}
		mirrorFile{fault: func(_, format string, args ...any) {
			out = append(out, e.mistake(field, format, args...))
		}}.url("", mirrorURL(m))
	}
	return out
}

func registryOf(source string) string {
	host, _, _ := strings.Cut(source, "/")
	return host
}

// mirrorURL returns the address of a mirror's API: its images have the paths of the
// source's below the mirror's own.
func mirrorURL(mirror string) string {
	host, below, deep := strings.Cut(mirror, "/")
	if !deep {
		return "https://" + host
	}
	return "https://" + host + "/v2/" + below
}

// mirroredSource is what all sets say of one registry.
type mirroredSource struct {
	name    string
	entries []mirrorEntry
	// mirrors are in the order in which they are asked, and tags those that are asked for
	// tags too.
	mirrors []string
	tags    map[string]bool
}

func (s *mirroredSource) never() bool {
	return slices.ContainsFunc(s.entries, func(e mirrorEntry) bool { return e.never })
}

// merge joins the entries of a source, and refuses what they cannot have together.
// containerd asks a mirror that it asks for tags for digests too, so a mirror of tags
// has to be one of digests.
func (s *mirroredSource) merge() Mistakes {
	var out Mistakes
	digests := map[string]bool{}
	lists := make([][]string, 0, len(s.entries))
	for _, e := range s.entries {
		lists = append(lists, e.mirrors)
		for _, m := range e.mirrors {
			digests[m] = digests[m] || e.kind == DigestMirrorSet
			s.tags[m] = s.tags[m] || e.kind == TagMirrorSet
		}
		if first := s.entries[0]; first.never != e.never {
			const differs = "%s has another policy for %s, and containerd asks the source or does not"
			out = append(out, e.mistake(".mirrorSourcePolicy", differs, first.object(), s.name), first.mistake(".mirrorSourcePolicy", differs, e.object(), s.name))
		}
	}
	for _, e := range s.entries {
		for i, m := range e.mirrors {
			if !digests[m] {
				out = append(out, e.mistake(fmt.Sprintf(".mirrors.%d", i), "containerd would ask it for digests too; name it in an %s as well, or nowhere", DigestMirrorSet))
			}
		}
	}
	s.mirrors = inOrder(lists)
	return out
}

// inOrder joins lists so that each keeps its order. Where two contradict each other, what
// comes first in the lists comes first.
func inOrder(lists [][]string) []string {
	before := map[string][]string{}
	var rest, out []string
	for _, list := range lists {
		for i, m := range list {
			if !slices.Contains(rest, m) {
				rest = append(rest, m)
			}
			if i > 0 && list[i-1] != m {
				before[m] = append(before[m], list[i-1])
			}
		}
	}
	for len(rest) > 0 {
		next := max(0, slices.IndexFunc(rest, func(m string) bool {
			return !slices.ContainsFunc(before[m], func(b string) bool { return slices.Contains(rest, b) })
		}))
		out, rest = append(out, rest[next]), slices.Delete(rest, next, next+1)
	}
	return out
}

// file returns the bytes for containerd. Where the source is not to be asked, the last
// mirror stands in its place: containerd would ask it otherwise.
func (s *mirroredSource) file() []byte {
	var b bytes.Buffer
	b.WriteString("# Made from ImageDigestMirrorSets and ImageTagMirrorSets.\n")
	tables := s.mirrors
	if s.never() {
		last := tables[len(tables)-1]
		tables = tables[:len(tables)-1]
		fmt.Fprintf(&b, "server = %q\n", mirrorURL(last))
		s.settings(&b, "", last)
	}
	for _, m := range tables {
		fmt.Fprintf(&b, "\n[host.%q]\n", mirrorURL(m))
		s.settings(&b, "  ", m)
	}
	return b.Bytes()
}

func (s *mirroredSource) settings(b *bytes.Buffer, indent, mirror string) {
	may := `["pull"]`
	if s.tags[mirror] {
		may = `["pull", "resolve"]`
	}
	fmt.Fprintf(b, "%scapabilities = %s\n", indent, may)
	if strings.Contains(mirror, "/") {
		fmt.Fprintf(b, "%soverride_path = true\n", indent)
	}
}

// folder returns the name of a registry's folder: the one in which containerd looks
// first.
func folder(source string) string {
	if i := strings.LastIndex(source, ":"); i > 0 {
		return source[:i] + "_" + source[i+1:] + "_"
	}
	return source
}

// mirrorSets returns the files that name the mirrors of all sets, for each pool alike, and
// the objects from which they are made. list are the pool's MachineConfigs, which may not
// have a file for the same registry. The error is a Mistakes.
func mirrorSets(all Objects, list []mcfgv1.MachineConfig) (files []types.File, made []string, err error) {
	var mistakes Mistakes
	sources := map[string]*mirroredSource{}
	for _, e := range mirrorEntries(all) {
		if source := e.kind + "/" + e.name; !slices.Contains(made, source) {
			made = append(made, source)
		}
		wrong := e.check()
		if mistakes = append(mistakes, wrong...); len(wrong) > 0 || len(e.mirrors) == 0 {
			continue
		}
		s := sources[e.source]
		if s == nil {
			s = &mirroredSource{name: e.source, tags: map[string]bool{}}
			sources[e.source] = s
		}
		s.entries = append(s.entries, e)
	}
	theirs := mirrorFiles(list)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		wrong := append(s.merge(), s.clashes(theirs)...)
		if mistakes = append(mistakes, wrong...); len(wrong) == 0 {
			files = append(files, ownFile(state.MirrorsFolder+folder(name)+"/"+mirrorsFile, s.file()))
		}
	}
	if err := mistakes.err(); err != nil {
		return nil, made, err
	}
	return files, made, nil
}

// writtenMirrors is a file of a MachineConfig in the folder of a registry.
type writtenMirrors struct{ object, field, path, folder string }

func mirrorFiles(list []mcfgv1.MachineConfig) []writtenMirrors {
	var out []writtenMirrors
	for _, mc := range list {
		cfg, err := ignition.Parse(mc.Spec.Config.Raw)
		if len(mc.Spec.Config.Raw) == 0 || err != nil {
			continue // the merge refuses it
		}
		for i, f := range cfg.Storage.Files {
			if rest, below := strings.CutPrefix(f.Path, state.MirrorsFolder); below {
				name, _, _ := strings.Cut(rest, "/")
				out = append(out, writtenMirrors{"MachineConfig " + mc.Name, fmt.Sprintf("spec.config.storage.files.%d.path", i), f.Path, name})
			}
		}
	}
	return out
}

// clashes refuses a MachineConfig's file for a registry that has sets: one of both would
// hold, and containerd reads certificates beside hosts.toml only if it names them.
func (s *mirroredSource) clashes(theirs []writtenMirrors) Mistakes {
	var out Mistakes
	for _, w := range theirs {
		if w.folder != s.name && w.folder != folder(s.name) {
			continue
		}
		first := s.entries[0]
		out = append(out,
			first.mistake(".source", "%s has %s for the same registry; name its mirrors in one of both", w.object, w.path),
			Mistake{w.object, w.field, fmt.Sprintf("%s names mirrors of %s too; name them in one of both", first.object(), s.name)})
	}
	return out
}
