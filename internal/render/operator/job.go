package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// A Job's description of itself, so that an operator that has just started
// knows.
const (
	AnnotationKey     = "holdfast.io/spec-hash"
	AnnotationAttempt = "holdfast.io/attempt"
	AnnotationBefore  = "holdfast.io/previous-failure"
	LabelStep         = "holdfast.io/two-node-step"
)

// The place of the step's input in a Job's container.
const (
	InputFolder = "/run/holdfast-input"
	InputKey    = "input.json"
)

// InputSecret returns the name of the Secret that the Jobs of a node read.
func InputSecret(node string) string { return "two-node-input-" + node }

// InputDigest identifies an input. Jobs get the digest in clear text: the input
// contains the hosts' secret, so that nobody can guess the passwords in it.
func InputDigest(input []byte) string {
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:])
}

// deadlines are the time limits of the steps. A step that waits for etcd gets
// the time for a slow disk and a start from scratch.
var deadlines = map[twonode.Step]time.Duration{
	twonode.Auth:     5 * time.Minute,
	twonode.Fencing:  5 * time.Minute,
	twonode.Setup:    10 * time.Minute,
	twonode.Manifest: 10 * time.Minute,
	twonode.HandOver: 15 * time.Minute,
	twonode.Finish:   5 * time.Minute,
}

// Job renders the Job of a step. Its container enters the host as the host's
// root, so nothing confines it there. The digest identifies its input, so that
// it does not read an older one.
func Job(w handover.Work, digest string) *batchv1.Job {
	labels := map[string]string{"app.kubernetes.io/name": "two-node", "app.kubernetes.io/managed-by": Name, LabelStep: string(w.Step)}
	annotations := map[string]string{AnnotationKey: w.Key, AnnotationAttempt: strconv.Itoa(w.Attempt)}
	if w.Before != "" {
		annotations[AnnotationBefore] = w.Before
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: w.Name, Labels: labels, Annotations: annotations},
		Spec: batchv1.JobSpec{
			// The operator repeats failed Jobs, so that it can report why.
			BackoffLimit:          new(int32(0)),
			ActiveDeadlineSeconds: new(int64(deadlines[w.Step] / time.Second)),
			Template:              corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: jobPod(w, digest)},
		},
	}
}

func jobPod(w handover.Work, digest string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName:    w.Node,
		HostPID:     true,
		HostNetwork: true, // this must work without the pod network

		RestartPolicy:                corev1.RestartPolicyNever,
		PriorityClassName:            "system-node-critical",
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "step", Image: payload.Image(Image), ImagePullPolicy: corev1.PullNever,
			Command: []string{
				program, "job", string(w.Step),
				"--input", InputFolder + "/" + InputKey, "--digest", digest,
			},
			SecurityContext:          &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "input", MountPath: InputFolder, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: "input", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: InputSecret(w.Node), DefaultMode: new(int32(0o400)),
		}}}},
	}
}
