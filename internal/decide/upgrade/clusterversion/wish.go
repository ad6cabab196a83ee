package clusterversion

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

// Wish is what a person wants, as the ClusterVersion says it. The operator and the
// commands read it alike.
type Wish struct {
	cluster.Wish
	// Version is the one that spec.desiredUpdate.version names; empty for none.
	Version   string
	Soak      time.Duration
	SoakOff   bool
	Overrides []annotation.Override
	Sources   annotation.Sources
	// Mistakes name what cannot be read, each with its field. What is mistaken does not
	// count.
	Mistakes []string
}

// UpgradeID identifies the wish that stands in a ClusterVersion now: another one for the
// same release has another.
func UpgradeID(v configv1.ClusterVersion) string {
	uid, _, _ := strings.Cut(string(v.UID), "-")
	return fmt.Sprintf("%s-%d", uid, v.Generation)
}

// WishOf reads a ClusterVersion. The API refuses mistakes; those of before, and those of
// somebody who took that policy away, are named and do not count.
func WishOf(v configv1.ClusterVersion, r cluster.Record) Wish {
	w := Wish{Soak: annotation.DefaultSoak}
	wrong := func(field, format string, args ...any) {
		w.Mistakes = append(w.Mistakes, field+": "+fmt.Sprintf(format, args...))
	}
	w.Upgrade = UpgradeID(v)
	if d := v.Spec.DesiredUpdate; d != nil {
		digest, ok := Digest(d.Image)
		if !ok {
			wrong("spec.desiredUpdate.image", "a release is named by its digest: sha256:HEX, or anything@sha256:HEX, with 64 hexadecimal digits")
		}
		w.Release, w.Start, w.Version = digest, ok, d.Version
	}
	at := func(name string) (text, field string) {
		return v.Annotations[name], "metadata.annotations[" + name + "]"
	}
	if text, field := at(annotation.OfferOf); text != "" {
		digest, ok := Digest(text)
		if !ok {
			wrong(field, "a release is named by its digest: sha256:HEX, with 64 hexadecimal digits")
		}
		w.Offer = digest
	}
	w.Paused, _ = at(annotation.PausedBy)
	commit, _ := at(annotation.CommitOf)
	w.Commit = commit != "" && commit == r.Upgrade
	if text, field := at(annotation.SoakOf); text != "" {
		soak, off, err := annotation.ParseSoak(text)
		switch {
		case err != nil:
			wrong(field, "a duration such as 24h, or off")
		case off:
			w.SoakOff = true
		default:
			w.Soak = soak
		}
	}
	if text, field := at(annotation.OverridesOf); text != "" && json.Unmarshal([]byte(text), &w.Overrides) != nil {
		w.Overrides = nil // a part of it may have been read
		wrong(field, "a JSON list of objects with gate, reason, by and at")
	}
	if text, field := at(annotation.SourcesOf); text != "" && json.Unmarshal([]byte(text), &w.Sources) != nil {
		w.Sources = annotation.Sources{}
		wrong(field, "a JSON object with registry or folder")
	}
	return w
}
