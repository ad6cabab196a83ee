package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/render/guards"
)

// scrub goes through all keys once, and leaves out or changes those that decide/restore names. inPlace is
// when a restore in place is prepared, zero for that of a new life.
func scrub(ctx context.Context, e *etcd.Alone, o Options, inPlace time.Time) (Report, error) {
	s := scrubber{etcd: e, options: o, inPlace: inPlace, report: Report{Dropped: map[string]int{}, Changed: map[string]int{}}}
	_, err := e.Each(ctx, restore.Root, func(key string, value []byte) error { return s.key(ctx, key, value) })
	if err != nil {
		return s.report, err
	}
	return s.report, s.drop(ctx)
}

// maxRun is how many keys are deleted at once: etcd gives one request some seconds.
const maxRun = 1000

type scrubber struct {
	etcd    *etcd.Alone
	options Options
	inPlace time.Time
	report  Report
	// out is the list of hosts that were taken out, as it is kept. Its key comes before that of
	// the guard.
	out map[string]string
	// first and last are those of the run keys, one after the other, that are left out and not yet
	// deleted. What fills an etcd, mostly Events, is many thousands of them, and each deletion waits
	// for the disk.
	first, last string
	run         int
}

func (s *scrubber) key(ctx context.Context, key string, value []byte) error {
	rule := restore.Of(key)
	fate, now, err := s.judge(rule, value)
	if err != nil {
		return err
	}
	if fate == restore.Drop {
		s.report.Dropped[rule.Name]++
		return s.leaveOut(ctx, key)
	}
	if err := s.drop(ctx); err != nil {
		return err
	}
	switch fate {
	case restore.Change:
		s.report.Changed[rule.Name]++
		return s.etcd.Put(ctx, key, now)
	default:
		s.report.Kept++
		return nil
	}
}

// judge returns the fate of a key, and its value as it should be.
func (s *scrubber) judge(rule restore.Rule, value []byte) (restore.Fate, []byte, error) {
	switch {
	case !s.inPlace.IsZero():
		if rule.InPlace == restore.Look {
			return s.lookInPlace(rule.Name, value)
		}
		return cmp.Or(rule.InPlace, restore.Keep), value, nil
	case rule.Fate == restore.Look:
		return s.look(value)
	case rule.Name == restore.Nodes:
		s.node(value)
	}
	return rule.Fate, value, nil
}

// leaveOut adds a key to the run.
func (s *scrubber) leaveOut(ctx context.Context, key string) error {
	if s.run == 0 {
		s.first = key
	}
	s.last = key
	if s.run++; s.run < maxRun {
		return nil
	}
	return s.drop(ctx)
}

// drop deletes the keys of the run.
func (s *scrubber) drop(ctx context.Context) error {
	if s.run == 0 {
		return nil
	}
	s.run = 0
	return s.etcd.DeleteThrough(ctx, s.first, s.last)
}

// node notes a node. A node that cannot be decoded is left out without a note.
func (s *scrubber) node(value []byte) {
	if object, err := decode(value); err == nil {
		if n, ok := object.(*corev1.Node); ok {
			s.report.Node(n)
		}
	}
}

// look decides by an object what is done with its key, and returns the object as it should be.
func (s *scrubber) look(value []byte) (restore.Fate, []byte, error) {
	if len(value) > 0 && value[0] == '{' {
		return lookAtCustom(value)
	}
	object, err := decode(value)
	if err != nil {
		return "", nil, fmt.Errorf("an object that cannot be read: %w", err)
	}
	changed := false
	switch o := object.(type) {
	case *corev1.Pod:
		s.report.Pod(o)
		return restore.Drop, nil, nil
	case *batchv1.CronJob:
		changed = s.report.CronJob(o)
	case *batchv1.Job:
		changed = s.report.Job(o)
	case *corev1.PersistentVolume:
		changed = s.report.Volume(o)
	case *admissionv1.ValidatingWebhookConfiguration:
		s.report.Validating(o)
	case *admissionv1.MutatingWebhookConfiguration:
		s.report.Mutating(o)
	case *rbacv1.ClusterRoleBinding:
		s.report.Administrator(o, s.options.Now)
	case *corev1.ConfigMap:
		changed = s.report.TakenOut(o, s.options.ControlPlanes)
		if s.out = o.Data; len(o.Data) == 0 {
			return restore.Drop, nil, nil
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		// A host that was taken out comes back as soon as an API server serves, long before the
		// operator, which keeps this guard.
		o.Spec, changed = guards.RetiredHosts(s.out).Policy.Spec, true
	default:
		return "", nil, fmt.Errorf("%T is not what belongs there", object)
	}
	if !changed {
		return restore.Keep, nil, nil
	}
	now, err := encode(object)
	return restore.Change, now, err
}

// lookAtCustom does the same as look for an object of a custom kind.
func lookAtCustom(value []byte) (restore.Fate, []byte, error) {
	var object map[string]any
	if err := json.Unmarshal(value, &object); err != nil {
		return "", nil, err
	}
	if !restore.Version(object) {
		return restore.Keep, nil, nil
	}
	now, err := json.Marshal(object)
	return restore.Change, now, err
}

// kinds has the kinds of the objects that are looked at, in the versions in which API servers
// store them.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, admissionv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // only if a kind is registered twice, which every test would show
		}
	}
	return s
}()

func decode(value []byte) (runtime.Object, error) {
	object, _, err := serializer.NewCodecFactory(kinds).UniversalDeserializer().Decode(value, nil, nil)
	return object, err
}

// encode encodes an object as the API server does, in the version in which it was decoded.
func encode(object runtime.Object) ([]byte, error) {
	return runtime.Encode(protobuf.NewSerializer(kinds, kinds), object)
}
