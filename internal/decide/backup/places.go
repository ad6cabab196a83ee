package backup

// The objects of the API that hold the wish of a site: a Backup of config.openshift.io/v1alpha1
// says when backups are taken, a Secret says where they go.
const (
	ObjectName      = "cluster"
	SecretNamespace = "openshift-etcd"
	SecretName      = "holdfast-backup"
	SecretKey       = "config.yaml"
)
