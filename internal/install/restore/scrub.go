package restore

import (
	"context"
	"encoding/json"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast/holdfast/internal/decide/restore"
)

// page is how many keys are read at once. An object has at most 1.5 MiB.
const page = 40

// scrub goes through all keys once, and leaves out or changes what decide/restore says.
func scrub(ctx context.Context, kv pb.KVClient) (Report, error) {
	s := scrubber{kv: kv, report: Report{Dropped: map[string]int{}, Changed: map[string]int{}}}
	key, end := []byte(restore.Root), []byte("/registry0")
	for {
		got, err := kv.Range(ctx, &pb.RangeRequest{Key: key, RangeEnd: end, Limit: page})
		if err != nil {
			return s.report, fmt.Errorf("read etcd: %w", err)
		}
		for _, pair := range got.Kvs {
			if err := s.key(ctx, string(pair.Key), pair.Value); err != nil {
				return s.report, fmt.Errorf("key %s: %w", pair.Key, err)
			}
			key = append(pair.Key, 0)
		}
		if !got.More {
			return s.report, nil
		}
	}
}

type scrubber struct {
	kv     pb.KVClient
	report Report
}

func (s *scrubber) key(ctx context.Context, key string, value []byte) error {
	rule := restore.Of(key)
	drop, changed, err := rule.Fate == restore.Drop, false, error(nil)
	switch {
	case rule.Fate == restore.Look:
		drop, changed, value, err = s.look(key, value)
	case rule.Name == "nodes":
		s.node(value)
	}
	switch {
	case err != nil:
		return err
	case drop:
		s.report.Dropped[rule.Name]++
		_, err = s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)})
	case changed:
		s.report.Changed[rule.Name]++
		_, err = s.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value})
	default:
		s.report.Kept++
	}
	return err
}

// node notes a node. One that cannot be read is left out without a note.
func (s *scrubber) node(value []byte) {
	if object, err := decode(value); err == nil {
		if n, ok := object.(*corev1.Node); ok {
			s.report.Node(n)
		}
	}
}

// look asks an object what becomes of it, and returns it as it is to be.
func (s *scrubber) look(key string, value []byte) (drop, changed bool, now []byte, err error) {
	if len(value) > 0 && value[0] == '{' {
		return lookAtCustom(value)
	}
	object, err := decode(value)
	if err != nil {
		return false, false, nil, fmt.Errorf("an object that cannot be read: %w", err)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return s.report.Pod(o), false, nil, nil
	case *batchv1.CronJob:
		changed = s.report.CronJob(o)
	case *corev1.PersistentVolume:
		changed = s.report.Volume(o)
	case *admissionv1.ValidatingWebhookConfiguration:
		s.report.Validating(o)
	case *admissionv1.MutatingWebhookConfiguration:
		s.report.Mutating(o)
	default:
		return false, false, nil, fmt.Errorf("%T is not what belongs there", object)
	}
	if !changed {
		return false, false, nil, nil
	}
	now, err = encode(object)
	return false, true, now, err
}

// lookAtCustom is look for an object of a custom kind.
func lookAtCustom(value []byte) (drop, changed bool, now []byte, err error) {
	var object map[string]any
	if err := json.Unmarshal(value, &object); err != nil {
		return false, false, nil, err
	}
	if !restore.Version(object) {
		return false, false, nil, nil
	}
	now, err = json.Marshal(object)
	return false, true, now, err
}

func decode(value []byte) (runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	return object, err
}

// encode writes an object as the API server does: in the version in which it was read.
func encode(object runtime.Object) ([]byte, error) {
	return runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), object)
}
