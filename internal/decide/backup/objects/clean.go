package objects

import (
	"slices"
	"strings"
)

// Keep says what of the former cluster an extracted object keeps.
type Keep struct {
	// ServiceAddresses keeps the cluster IPs and node ports of Services.
	ServiceAddresses bool
	// NewVolumes takes the name of its volume from each claim, so that it gets an empty one.
	NewVolumes bool
}

// metadataOfTheServer are the fields of metadata that the API server or a controller of another
// life wrote.
var metadataOfTheServer = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink", "finalizers", "ownerReferences",
}

// annotationsOfTools are annotations that kubectl or a controller writes about its own work. That
// of kubectl repeats the whole object, with its secrets.
var annotationsOfTools = []string{
	lastApplied,
	"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation", "control-plane.alpha.kubernetes.io/leader",
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
	"batch.kubernetes.io/job-tracking", "endpoints.kubernetes.io/last-change-trigger-time",
}

// Clean returns an object in the form in which the API of a living cluster takes it as a new one,
// and what a person must know of it.
func (o Object) Clean(k Keep) (Object, []string) {
	notes := []string{}
	if text(o.Content, "metadata", "deletionTimestamp") != "" {
		notes = append(notes, "it was being deleted when the backup was taken")
	}
	if owners := ownersOf(o); len(owners) > 0 {
		notes = append(notes, "it no longer belongs to "+strings.Join(owners, ", "))
	}
	content := copyOf(o.Content)
	delete(content, "status")
	meta := fields(content, "metadata")
	for _, field := range metadataOfTheServer {
		delete(meta, field)
	}
	dropFrom(meta, "annotations", annotationsOfTools...)
	if c, special := cleaners[o.String()]; special {
		notes = append(notes, c(content, k)...)
	}
	o.Content = content
	return o, notes
}

// cleaners has the cleaning that a resource needs beside that of all.
var cleaners = map[string]func(content map[string]any, k Keep) []string{
	"namespaces":             cleanNamespace,
	"services":               cleanService,
	"persistentvolumeclaims": cleanClaim,
	"persistentvolumes":      cleanVolume,
	"serviceaccounts":        cleanAccount,
	"pods":                   cleanPod,
	"jobs.batch":             cleanJob,
}

func cleanNamespace(content map[string]any, _ Keep) []string {
	dropFrom(content, "spec", "finalizers")
	return nil
}

func cleanService(content map[string]any, k Keep) []string {
	spec := fields(content, "spec")
	if k.ServiceAddresses || spec == nil {
		return nil
	}
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	delete(spec, "healthCheckNodePort")
	had := false
	for _, port := range list(spec, "ports") {
		if p, ok := port.(map[string]any); ok {
			had = had || p["nodePort"] != nil
			delete(p, "nodePort")
		}
	}
	if had {
		return []string{"it gets other node ports"}
	}
	return nil
}

func cleanClaim(content map[string]any, k Keep) []string {
	volume := text(content, "spec", "volumeName")
	switch {
	case volume == "":
		return nil
	case k.NewVolumes:
		dropFrom(content, "spec", "volumeName")
		return []string{"it gets a new, empty volume in place of " + volume}
	}
	return []string{"it waits for the volume " + volume + "; the help says what to do (Volumes)"}
}

func cleanVolume(content map[string]any, _ Keep) []string {
	dropFrom(fields(content, "spec"), "claimRef", "uid", "resourceVersion")
	return []string{"its data are not in the backup"}
}

func cleanAccount(content map[string]any, _ Keep) []string {
	delete(content, "secrets")
	return nil
}

func cleanPod(content map[string]any, _ Keep) []string {
	spec := fields(content, "spec")
	for _, field := range []string{"nodeName", "priority", "preemptionPolicy", "serviceAccount", "ephemeralContainers"} {
		delete(spec, field)
	}
	isToken := func(v any) bool {
		m, _ := v.(map[string]any)
		return strings.HasPrefix(text(m, "name"), "kube-api-access-")
	}
	keepFrom(spec, "volumes", isToken)
	for _, field := range []string{"containers", "initContainers"} {
		for _, one := range list(spec, field) {
			if c, ok := one.(map[string]any); ok {
				keepFrom(c, "volumeMounts", isToken)
			}
		}
	}
	return nil
}

// jobLabels are the labels that the API server gives the pods of a Job, with the id of the Job.
var jobLabels = []string{"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"}

func cleanJob(content map[string]any, _ Keep) []string {
	spec := fields(content, "spec")
	if !truth(spec, "manualSelector") {
		delete(spec, "selector")
		dropFrom(fields(spec, "template", "metadata"), "labels", jobLabels...)
		dropFrom(fields(content, "metadata"), "labels", jobLabels...)
	}
	return []string{"it had not finished: it runs from its start"}
}

// dropFrom takes keys out of a map in a field, and the field if nothing is left.
func dropFrom(content map[string]any, field string, keys ...string) {
	inner := fields(content, field)
	if inner == nil {
		return
	}
	for _, key := range keys {
		delete(inner, key)
	}
	if len(inner) == 0 {
		delete(content, field)
	}
}

// keepFrom takes items out of a list in a field, and the field if nothing is left.
func keepFrom(content map[string]any, field string, out func(any) bool) {
	items := slices.DeleteFunc(slices.Clone(list(content, field)), out)
	if len(items) == 0 {
		delete(content, field)
		return
	}
	content[field] = items
}

// ownersOf lists the owners of an object, each as KIND NAME.
func ownersOf(o Object) (out []string) {
	for _, owner := range list(o.Content, "metadata", "ownerReferences") {
		if m, ok := owner.(map[string]any); ok {
			out = append(out, text(m, "kind")+" "+text(m, "name"))
		}
	}
	return out
}
