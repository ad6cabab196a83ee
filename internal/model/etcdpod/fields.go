package etcdpod

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fields holds the fields that Kubernetes knows, by the place of their object in
// a pod. An unknown field, such as hostNetwrk, is a mistake of its author, and
// nobody can tell what was meant. Objects at other places are not checked:
// podman does not use them. A test compares the table with k8s.io/api, whose 46
// packages are too much for a program that has to start at once.
var fields = map[string]string{
	"": "apiVersion kind metadata spec status",
	"metadata": "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName " +
		"generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid",
	"spec": "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy " +
		"enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname " +
		"hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy " +
		"priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName " +
		"schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName " +
		"setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations " +
		"topologySpreadConstraints volumes",
	"spec.containers[]": "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe " +
		"resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce " +
		"terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
	"spec.containers[].env[]":          "name value valueFrom",
	"spec.containers[].volumeMounts[]": "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr",
	"spec.volumes[]": "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc " +
		"flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi name nfs " +
		"persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos " +
		"vsphereVolume",
	"spec.volumes[].hostPath": "path type",
}

// unknown refuses fields that Kubernetes does not know. Like Kubernetes it
// ignores the case of a name.
func unknown(value any, place string) error {
	var errs []error
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			errs = append(errs, unknown(one, place+"[]"))
		}
	case map[string]any:
		names, known := fields[place]
		if !known {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(place+"."+key, ".")
			i := slices.IndexFunc(strings.Fields(names), func(name string) bool { return strings.EqualFold(name, key) })
			if i < 0 {
				errs = append(errs, fmt.Errorf("%s: a pod has no such field", at))
				continue
			}
			errs = append(errs, unknown(v[key], strings.TrimPrefix(place+"."+strings.Fields(names)[i], ".")))
		}
	}
	return errors.Join(errs...)
}
