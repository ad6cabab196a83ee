package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// owner is whom an object belongs to once the cluster lives.
type owner string

const (
	// ofRelease: an upgrade brings it as the new release has it.
	ofRelease owner = "release"
	// whileThere: the same, but a person may delete it, and it stays away then. Of the
	// network there are some more, and one that a person may change (add).
	whileThere owner = "release, while it is there"
	// ofOperator is the operator itself, which is brought last.
	ofOperator owner = "operator"
	// ofSite: people or the operator change it while the cluster lives, so an upgrade
	// leaves it alone.
	ofSite owner = "site"
)

// Document is one object of the API as YAML.
type Document struct {
	state.ObjectRef
	Data []byte
	// WhileThere is true for an object that a person may delete: it is brought only
	// where it is still there. UnlessChanged is true for one that a person may change: it
	// is brought only where nobody has.
	WhileThere, UnlessChanged bool
}

// Release holds what an upgrade brings to a site, in the order in which it is applied.
type Release struct {
	Kinds, Objects, Operator []Document
	// Every names all objects of the site, also those that an upgrade leaves alone.
	Every []state.ObjectRef
}

// ReleaseOf returns what belongs to this release of the objects of a site. A site
// without secrets gives the same.
func ReleaseOf(s *site.Site) (Release, error) {
	var out Release
	for _, f := range kinds() {
		if err := out.add(f, ofRelease, &out.Kinds); err != nil {
			return Release{}, err
		}
	}
	for _, o := range objects(s.Config, s.Topology()) {
		files, err := o.files()
		if err != nil {
			return Release{}, fmt.Errorf("render manifest %s: %w", o.file, err)
		}
		into := &out.Objects
		if o.of == ofOperator {
			into = &out.Operator
		}
		for _, f := range files {
			if path.Dir(f.Path) == Statuses {
				continue // only objects of the site have one
			}
			if err := out.add(f, o.of, into); err != nil {
				return Release{}, err
			}
		}
	}
	network, err := Network(s)
	if err != nil {
		return Release{}, err
	}
	for _, f := range network {
		if err := out.add(f, ofRelease, &out.Objects); err != nil {
			return Release{}, err
		}
	}
	return out, nil
}

// Network renders the cluster's DNS and the pod network.
func Network(s *site.Site) ([]state.File, error) {
	dns, err := clusterdns.Manifests(s)
	if err != nil || s.Config.Networking.NetworkType == config.NetworkTypeNone {
		return []state.File{dns}, err
	}
	network, err := flannel.Manifests(s)
	return []state.File{dns, network}, err
}

// add takes in the objects of a file.
func (r *Release) add(f state.File, of owner, into *[]Document) error {
	for text := range bytes.SplitSeq(append([]byte("\n"), f.Data...), []byte("\n---\n")) {
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		d, err := parseDocument(text)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", f.Path, err)
		}
		// Whoever installs an enforcer of NetworkPolicies deletes what refuses them.
		d.WhileThere = of == whileThere || strings.HasPrefix(d.Name, flannel.RefusalName)
		// A site adds servers and names to the Corefile (docs/runbook/cluster-dns.md).
		d.UnlessChanged = d.Kind == "ConfigMap" && d.Namespace == clusterdns.Namespace && d.Name == clusterdns.Name
		r.Every = append(r.Every, d.ObjectRef)
		if of != ofSite {
			*into = append(*into, d)
		}
	}
	return nil
}

func parseDocument(text []byte) (Document, error) {
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return Document{}, err
	}
	if head.APIVersion == "" || head.Kind == "" || head.Metadata.Name == "" {
		return Document{}, errors.New("an object lacks apiVersion, kind or name")
	}
	return Document{Data: text, ObjectRef: state.ObjectRef{
		APIVersion: head.APIVersion, Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
	}}, nil
}
