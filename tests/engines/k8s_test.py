# SPDX-License-Identifier: Apache-2.0
"""What `shoal run --print-k8s` prints, read by the schemas that Kubernetes and Kubeflow publish. No
cluster runs it. Packages of the Python index, in an environment of their own."""
import os
import re
import subprocess
import unittest

import cluster
import python_packages

VERSIONS = "1.30", "1.33", "1.37"
KINDS = "job", "jobset", "trainjob"
REFORM = ["--on-loss", "reform", "--spares", "1", "--requeue"]


def printed(*options):
    words = [cluster.SHOAL, "run", "-n", "4", "--print-k8s", *options, "--", "python3", "a b.py"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def objects(*options):
    import yaml

    return list(yaml.safe_load_all(printed(*options)))


class Kubernetes(unittest.TestCase):
    def by_schema(self, one):
        import kubernetes_validate

        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)

    def by_model(self, one, model):
        """Reading loses nothing: there is no field that the model does not have."""
        read = model.from_dict(one)
        self.assertEqual(one, read.to_dict())

    def job_of(self, spec):
        """A JobSet's job, as Kubernetes would get it."""
        job = spec["replicatedJobs"][0]["template"]["spec"]
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job}

    def test_a_job(self):
        for options in ([], REFORM):
            service, job = objects(*options)
            self.by_schema(service)
            self.by_schema(job)
            name = job["metadata"]["name"]
            self.assertEqual(name, service["metadata"]["name"])
            self.assertEqual({"job-name": name}, service["spec"]["selector"])
            self.assertEqual(name, job["spec"]["template"]["spec"]["subdomain"])

    def test_a_wrong_job_is_found(self):
        import kubernetes_validate

        job = objects()[1]
        job["spec"]["completionsMode"] = "Indexed"
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.by_schema(job)

    def test_a_jobset(self):
        from kubeflow_trainer_api import models

        for options in ([], REFORM):
            (one,) = objects("--kind", "jobset", *options)
            self.by_model(one, models.JobsetV1alpha2JobSet)
            self.by_schema(self.job_of(one["spec"]))

    def test_a_trainjob(self):
        from kubeflow_trainer_api import models

        for options in ([], REFORM):
            runtime, job = objects("--kind", "trainjob", *options)
            self.by_model(runtime, models.TrainerV1alpha1TrainingRuntime)
            self.by_model(job, models.TrainerV1alpha1TrainJob)
            self.by_schema(self.job_of(runtime["spec"]["template"]["spec"]))
            self.assertEqual(runtime["metadata"]["name"], job["spec"]["runtimeRef"]["name"])

    def containers(self):
        for kind in KINDS:
            one = objects("--kind", kind, *REFORM)
            spec = one[1]["spec"] if kind == "job" else None
            if kind == "jobset":
                spec = self.job_of(one[0]["spec"])["spec"]
            elif kind == "trainjob":
                spec = self.job_of(one[0]["spec"]["template"]["spec"])["spec"]
            yield kind, spec

    def test_commands_and_names(self):
        for kind, spec in self.containers():
            pod = spec["template"]["spec"]
            (container,) = pod["containers"]
            self.assertEqual(["sh", "python3", "a b.py"], container["command"][-3:], kind)
            rules = spec["podFailurePolicy"]["rules"]
            named = {r["onExitCodes"]["containerName"] for r in rules if "onExitCodes" in r}
            self.assertEqual({container["name"]}, named)
            # one label of DNS, and the name that rank 0's pod gets
            meet = {e["name"]: e.get("value") for e in container["env"]}["SHOAL_RENDEZVOUS"]
            middle = {"job": "", "jobset": "-rank-0", "trainjob": "-node-0"}[kind]
            self.assertEqual(f"tcp://{pod['subdomain']}{middle}-0.{pod['subdomain']}:29401", meet)
            self.assertTrue(re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", pod["subdomain"]))

    def test_spares_are_pods_behind_the_members(self):
        for kind, spec in self.containers():
            (container,) = spec["template"]["spec"]["containers"]
            words = container["command"][:-2] + ["sh", "-c", "echo $SHOAL_RANK $SHOAL_SPARE"]
            for rank, wanted in (("3", "3"), ("4", "0 4")):
                env = dict(os.environ, SHOAL_RANK=rank, SHOAL_WORLD_SIZE="4")
                out = subprocess.run(words, env=env, capture_output=True, text=True).stdout
                self.assertEqual(wanted, out.strip(), kind)
            self.assertEqual(5, spec["completions"])

    def test_two_jobs_of_one_user(self):
        names = {objects("--kind", kind)[0]["metadata"]["name"] for kind in KINDS * 3}
        self.assertEqual(9, len(names))


if __name__ == "__main__":
    python_packages.enter()
    cluster.main()
