package manifests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Way says how a change of an object reaches a living cluster.
type Way string

// The ways.
const (
	// Bring applies the whole object, as an upgrade does.
	Bring Way = "bring"
	// Make makes an object that is not there, and leaves one that is.
	Make Way = "make"
	// Set changes the fields that differ, whatever they are now. Replace does, too, and takes the words
	// that others added to a list which differs.
	Set     Way = "set"
	Replace Way = "replace"
	// Offer changes the fields that differ, where they are still as they were installed.
	Offer Way = "offer"
	// Remove deletes an object that the new site does not have.
	Remove Way = "remove"
)

// Change is what a living cluster lacks of an object, or has otherwise.
type Change struct {
	// Document is the object as the new site has it, or as the old one has it if it is removed.
	// It may hold a password.
	Document
	Way Way
	// Before is the object as the old site has it, nil if that has none.
	Before []byte
	// Status is true for the status of an object, which the API takes apart.
	Status bool
}

// Growth returns what the cluster of a site becomes with more control planes, in the order
// in which it is applied: objects, statuses, then guards. The guards are last, because one
// of them refuses to change the topology; and before the topology is changed the operator
// removes them.
func Growth(have, want *site.Site) ([]Change, error) {
	if err := alike(have, want); err != nil {
		return nil, err
	}
	list, gone, err := difference(have, want)
	return list, errors.Join(err, stays(gone))
}

// Shrinkage returns what the cluster of a site becomes with fewer control planes, in the order in
// which it is applied. The topology comes first: from then on the operator keeps no guards of two
// control planes, and one of them refuses to change anything that was handed over.
func Shrinkage(have, want *site.Site) ([]Change, error) {
	if err := alike(have, want); err != nil {
		return nil, err
	}
	list, gone, err := difference(have, want)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	for _, f := range gone {
		if path.Dir(f.Path) == Statuses {
			continue // it goes with its object
		}
		d, err := parseDocument(f.Data)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", f.Path, err)
		}
		list = append(list, Change{Document: d, Way: Remove, Before: f.Data})
	}
	return list, nil
}

func rank(c Change) int {
	if c.Status {
		return 0
	}
	return 1
}

// stays returns an error if a site has objects that another one lacks.
func stays(gone []state.File) error {
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has %s, and the other one has none: nothing takes it away", gone[0].Path)
}

// Move returns what the cluster of a site becomes with other addresses, in the order in which
// it is applied. The pod network comes last: its daemon reaches the API by a virtual IP.
func Move(have, want *site.Site) ([]Change, error) {
	list, gone, err := difference(have, want)
	if err := errors.Join(err, stays(gone)); err != nil {
		return nil, err
	}
	was, err := networkObjects(have)
	if err != nil {
		return nil, err
	}
	is, err := networkObjects(want)
	if err != nil {
		return nil, err
	}
	for i, d := range is {
		if i >= len(was) || was[i].ObjectRef != d.ObjectRef {
			return nil, fmt.Errorf("%s is not in the network of both places: nothing brings that to a living cluster", d.ObjectRef)
		}
		if !bytes.Equal(was[i].Data, d.Data) {
			list = append(list, Change{Document: d, Way: Set, Before: was[i].Data})
		}
	}
	return list, nil
}

// Naming returns what the cluster of a site becomes if another host takes the place of a control
// plane: by its name, or with its BMC. The Secrets with accounts of BMCs and the guards are not
// among it: the replacement writes the former when it has tried the account, and the operator makes
// the latter from them.
func Naming(have, want *site.Site) ([]Change, error) {
	if err := alike(have, want); err != nil {
		return nil, err
	}
	list, gone, err := difference(have, want)
	if err != nil {
		return nil, err
	}
	account := func(d Document) bool {
		return d.Kind == "Secret" && d.Namespace == NamespaceEtcd && strings.HasPrefix(d.Name, FencingSecretPrefix)
	}
	for _, f := range gone {
		d, err := parseDocument(f.Data)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", f.Path, err)
		}
		if !account(d) {
			return nil, stays([]state.File{f})
		}
	}
	return slices.DeleteFunc(list, func(c Change) bool {
		return account(c.Document) || strings.HasPrefix(c.Kind, "ValidatingAdmissionPolicy")
	}), nil
}

// networkObjects returns the objects of the cluster's network, one after the other.
func networkObjects(s *site.Site) ([]Document, error) {
	files, err := Network(s)
	if err != nil {
		return nil, err
	}
	var r Release
	var out []Document
	for _, f := range files {
		if err := r.add(f, ofRelease, &out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// difference returns what differs between the objects of two sites, and the files of the objects
// that only the old one has, sorted.
func difference(have, want *site.Site) (changes []Change, gone []state.File, err error) {
	was, err := bySite(have)
	if err != nil {
		return nil, nil, err
	}
	guarding := map[string]bool{}
	for _, o := range guardObjects(want.Config) {
		guarding[o.file] = true
	}
	var list, statuses, guards []Change
	for _, o := range objects(want.Config, want.Topology()) {
		files, err := o.files()
		if err != nil {
			return nil, nil, fmt.Errorf("render manifest %s: %w", o.file, err)
		}
		for _, f := range files {
			c, err := o.change(f, was)
			switch {
			case err != nil:
				return nil, nil, err
			case c == nil:
			case c.Status:
				statuses = append(statuses, *c)
			case guarding[o.file]:
				guards = append(guards, *c)
			default:
				list = append(list, *c)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		gone = append(gone, was[name])
	}
	return append(append(list, statuses...), guards...), gone, nil
}

// bySite returns the objects of a site by their files.
func bySite(s *site.Site) (map[string]state.File, error) {
	out := map[string]state.File{}
	for _, o := range objects(s.Config, s.Topology()) {
		files, err := o.files()
		if err != nil {
			return nil, fmt.Errorf("render manifest %s: %w", o.file, err)
		}
		for _, f := range files {
			out[f.Path] = f
		}
	}
	return out, nil
}

// change takes a file out of those of the old site, and returns what changes, or nil.
func (o object) change(f state.File, was map[string]state.File) (*Change, error) {
	before, there := was[f.Path]
	delete(was, f.Path)
	if there && bytes.Equal(before.Data, f.Data) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	d, err := parseDocument(f.Data)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", f.Path, err)
	}
	way, err := o.way(there)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", f.Path, err)
	}
	return &Change{Document: d, Way: way, Before: before.Data, Status: path.Dir(f.Path) == Statuses}, nil
}

// way says how a change of the object is brought. there is true if the old site has it too.
func (o object) way(there bool) (Way, error) {
	switch {
	case o.of == ofRelease, o.of == ofSite && o.secret && !there:
		return Bring, nil
	case o.of == ofSite && !there:
		return Make, nil
	case o.of == ofSite && o.wished:
		return Offer, nil
	case o.of == ofSite:
		return Set, nil
	}
	return "", errors.New("nobody says how its change reaches a living cluster")
}

// alike returns an error if the network of two sites is not the same: nothing brings that.
func alike(have, want *site.Site) error {
	was, err := Network(have)
	if err != nil {
		return err
	}
	is, err := Network(want)
	if err != nil {
		return err
	}
	for i, f := range is {
		if i >= len(was) || !bytes.Equal(was[i].Data, f.Data) {
			return fmt.Errorf("manifest %s of the network changes with the number of control planes: nothing brings that to a living cluster", f.Path)
		}
	}
	return nil
}
