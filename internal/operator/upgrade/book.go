package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// deprecatedKey is the key of the ConfigMap with the uses of removed APIs since the last
// upgrade.
const deprecatedKey = "deprecated-apis"

// book is what the ConfigMap has.
type book struct {
	// object is nil while there is none.
	object *corev1.ConfigMap
	record cluster.Record
	// unreadable says why the record cannot be read: nothing is done then.
	unreadable error
	uses       memory
}

// memory is what API servers have told of uses of removed APIs since the last upgrade. An
// API server itself forgets them when it starts.
type memory struct {
	// Release is the one that the site ran then: another one begins anew.
	Release string `json:"release"`
	// Since has, for each API server, when it was first asked.
	Since map[string]time.Time `json:"since,omitempty"`
	Uses  []gate.Use           `json:"uses,omitempty"`
}

// version reads the ClusterVersion, and makes it where it is missing.
func (r *Reconciler) version(ctx context.Context) (v *configv1.ClusterVersion, made bool, err error) {
	v = &configv1.ClusterVersion{}
	err = r.Live.Get(ctx, client.ObjectKey{Name: annotation.VersionName}, v)
	if err == nil {
		return v, false, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("read ClusterVersion %s: %w", annotation.VersionName, err)
	}
	v = &configv1.ClusterVersion{
		ObjectMeta: metav1.ObjectMeta{Name: annotation.VersionName},
		Spec:       configv1.ClusterVersionSpec{ClusterID: configv1.ClusterID(uuid.NewUUID())},
	}
	if err := r.Client.Create(ctx, v); err != nil {
		return nil, false, fmt.Errorf("create ClusterVersion %s: %w", annotation.VersionName, err)
	}
	return v, true, nil
}

// Record returns what reads the text of the record, empty for none, for whoever waits for
// upgrades. It is unknown to an account that may not read it. A cluster of an earlier
// release has no upgrades, and no right to look for them: the function is nil there.
func Record(m meta.RESTMapper, api client.Reader) (func(context.Context) (state.Fact[string], error), error) {
	if known, err := Known(m); !known || err != nil {
		return nil, err
	}
	return func(ctx context.Context) (state.Fact[string], error) {
		var cm corev1.ConfigMap
		err := client.IgnoreNotFound(api.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &cm))
		return known(cm.Data[annotation.RecordKey], err, "read the record of the upgrade")
	}, nil
}

// book reads the ConfigMap.
func (r *Reconciler) book(ctx context.Context) (book, error) {
	cm := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, cm)
	if apierrors.IsNotFound(err) {
		return book{}, nil
	}
	if err != nil {
		return book{}, fmt.Errorf("read the record of the upgrade: %w", err)
	}
	out := book{object: cm}
	record, err := annotation.Decode[annotation.Record](cm.Data[annotation.RecordKey])
	if err != nil {
		out.unreadable = fmt.Errorf("the record of the upgrade, ConfigMap %s/%s: %w", annotation.RecordNamespace, annotation.RecordName, err)
		return out, nil
	}
	out.record = record.Of()
	if json.Unmarshal([]byte(cm.Data[deprecatedKey]), &out.uses) != nil {
		out.uses = memory{} // it is only what was seen: looking begins anew
	}
	return out, nil
}

// write writes the record of a step.
func (r *Reconciler) write(ctx context.Context, g *gathered, next cluster.Step) error {
	text, err := annotation.Encode(annotation.RecordOf(next.Record))
	if err != nil {
		return err
	}
	if err := r.put(ctx, g.book, annotation.RecordKey, text); err != nil {
		return fmt.Errorf("write the record of the upgrade: %w", err)
	}
	if !g.book.record.Started || !next.Record.Started || g.book.record.Returning != next.Record.Returning || g.book.record.NoWayBack != next.Record.NoWayBack || g.book.record.Failed != next.Record.Failed {
		r.event(ctx, g.version, corev1.EventTypeNormal, "UpgradeRecorded", next.Why)
	}
	return nil
}

// put writes one key of the ConfigMap, unless somebody else wrote it meanwhile.
func (r *Reconciler) put(ctx context.Context, b book, key, text string) error {
	if b.object == nil {
		return r.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName},
			Data:       map[string]string{key: text},
		})
	}
	cm := b.object.DeepCopy()
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	cm.Data[key] = text
	return r.Client.Update(ctx, cm)
}

// sameRecord reports whether two records are written in the same way.
func sameRecord(a, b annotation.Record) bool {
	for _, r := range []*annotation.Record{&a, &b} {
		r.Seen, r.Rollout.Since, r.Rollout.Seen, r.Rollout.Runs = r.Seen.UTC(), r.Rollout.Since.UTC(), r.Rollout.Seen.UTC(), r.Rollout.Runs.UTC()
	}
	one, wrong := annotation.Encode(a)
	other, also := annotation.Encode(b)
	return wrong == nil && also == nil && one == other
}

// learn adds what API servers say now to what they said before.
func (m memory) learn(release string, now time.Time, answers map[string][]gate.Use) memory {
	out := memory{Release: release, Since: map[string]time.Time{}}
	if m.Release == release {
		maps.Copy(out.Since, m.Since)
		out.Uses = slices.Clone(m.Uses)
	}
	for _, host := range slices.Sorted(maps.Keys(answers)) {
		if _, known := out.Since[host]; !known {
			out.Since[host] = now.UTC().Truncate(time.Second)
		}
		for _, u := range answers[host] {
			if !slices.Contains(out.Uses, u) {
				out.Uses = append(out.Uses, u)
			}
		}
	}
	return out
}

// observed is for how long uses were looked for at the API server that was looked at for
// the shortest time; 0 if one of them never answered.
func (m memory) observed(now time.Time, hosts []string) time.Duration {
	var out time.Duration
	for i, host := range hosts {
		since, known := m.Since[host]
		if !known {
			return 0
		}
		if d := now.Sub(since); i == 0 || d < out {
			out = d
		}
	}
	return max(0, out)
}

// remember writes what was learnt, if it is new.
func (r *Reconciler) remember(ctx context.Context, g *gathered) error {
	if r.kept.uses.Release == "" || g.book.uses.same(r.kept.uses) {
		return nil
	}
	text, err := json.Marshal(r.kept.uses)
	if err != nil {
		return err
	}
	if err := r.put(ctx, g.book, deprecatedKey, string(text)); err != nil {
		return fmt.Errorf("remember who uses removed APIs: %w", err)
	}
	return nil
}

func (m memory) same(other memory) bool {
	return m.Release == other.Release && slices.Equal(m.Uses, other.Uses) && maps.EqualFunc(m.Since, other.Since, time.Time.Equal)
}
