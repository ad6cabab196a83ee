package state

// Container is one container that a host runs without a cluster.
type Container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"` // the program and its arguments
	Env     []string `json:"env,omitempty"`
	Mounts  []Mount  `json:"mounts,omitempty"`
	// Revision names the other input from which the container was made. If it
	// changes the container is made anew.
	Revision string `json:"revision,omitempty"`
}

// Mount is a folder of the host in a container.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}
