"""
One process that stays and answers batch after batch, a line a request: for Ray's map_batches, and whatever else keeps workers.

    ray.data.read_text("requests.jsonl").map_batches(Lines, fn_constructor_args=("./run", "model.gguf"), concurrency=2)
"""
import subprocess
import threading


class Lines:
    def __init__(self, run, model, *options):
        command = [run, model, "--batch", "-", "--in-order", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write(self, lines):
        self.process.stdin.write("".join(line.rstrip("\n") + "\n" for line in lines).encode())
        self.process.stdin.flush()

    def __call__(self, batch):
        """Of {"text": lines that are not blank} {"answer": as many}; both flow at once, since pipes hold little."""
        writer = threading.Thread(target=self.write, args=(batch["text"],))
        writer.start()
        answers = [self.process.stdout.readline().decode().rstrip("\n") for _ in batch["text"]]
        writer.join()
        if not all(answers):
            raise RuntimeError("the process ended with code %s" % self.process.wait())
        return {"answer": answers}
